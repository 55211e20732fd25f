#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_layers.py: each rule is broken once in a small tree made for it, and must be found."""
import contextlib
import io
import os
import tempfile
import unittest

import check_layers


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = self.folder.name
        for path in ("src/base/files.h", "src/cache/store.h", "src/launch/loaded_step.h", "src/tuner/race.h",
                     "src/device/nvrtc.h", "src/problem/parser.h", "src/kernels/swizzle.h", "src/kernels/wgmma.cuh",
                     "src/backends/backends.h", "src/backends/one/space.h", "src/backends/two/space.h"):
            self.write(path, "")

    def tearDown(self):
        self.folder.cleanup()

    def write(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def findings(self, path, text):
        self.write(path, text)
        return check_layers.check_file(self.root, path)

    def accepts(self, path, include):
        self.assertEqual(self.findings(path, f"#include {include}\n"), [])

    def refuses(self, path, include, why):
        found = self.findings(path, f"// first line\n  #  include {include}\n")
        self.assertEqual(len(found), 1, found)
        self.assertEqual(found[0][0], 2)
        self.assertIn(why, found[0][1])

    def test_raw_strings_are_not_code(self):
        kernel = 'const char* k = R"(\n#include "any.cuh"\n)";\n'
        self.assertEqual(self.findings("src/cache/store.cpp", kernel), [])
        found = self.findings("src/cache/store.cpp", kernel + '#include "tuner/race.h"\n')
        self.assertEqual([line for line, _ in found], [4])

    def test_lower_layers_are_fine(self):
        self.accepts("src/cache/store.cpp", '"base/files.h"')
        self.accepts("src/cache/store.cpp", '"store.h"')
        self.accepts("src/cache/store.cpp", '"cache/store.h"')
        self.accepts("src/tuner/tuner.cpp", '"launch/loaded_step.h"')
        self.accepts("src/cache/store.cpp", '"culet/problem.h"')

    def test_a_higher_layer_is_found(self):
        self.refuses("src/base/files.cpp", '"cache/store.h"', "base (layer 0) must not use cache (layer 3)")
        self.refuses("src/problem/problem.cpp", '"tuner/race.h"', "layer 5")
        self.refuses("src/base/files.cpp", '"culet/problem.h"', "layer 1")

    def test_within_a_layer_only_named_edges(self):
        self.accepts("src/launch/plan.cpp", '"cache/store.h"')
        self.accepts("src/benchmark/runner.cpp", '"launch/loaded_step.h"')
        self.refuses("src/cache/store.cpp", '"launch/loaded_step.h"', "must not use launch")
        self.refuses("src/selection/selection.cpp", '"cache/store.h"', "must not use cache")

    def test_pure_modules_do_not_see_the_machine(self):
        self.refuses("src/ranking/roofline.cpp", '"device/nvrtc.h"', "pure data")
        self.accepts("src/ranking/roofline.cpp", '"culet/device.h"')
        self.accepts("src/compile/nvrtc.cpp", '"device/nvrtc.h"')

    def test_backends_are_independent(self):
        self.accepts("src/backends/one/one.cpp", '"space.h"')
        self.accepts("src/backends/one/one.cpp", '"backends/backends.h"')
        self.refuses("src/backends/one/one.cpp", '"backends/two/space.h"', "backend one must not use backend two")

    def test_device_files_include_only_device_files(self):
        self.accepts("src/kernels/dense.cuh", '"wgmma.cuh"')
        self.accepts("src/kernels/cpu/tile.h", '"swizzle.h"')
        self.refuses("src/kernels/dense.cuh", '"base/files.h"', "device file")
        self.refuses("src/kernels/dense.cuh", '"../base/files.h"', "device file")
        self.refuses("src/kernels/dense.cuh", "<cstdint>", "no system header")

    def test_host_files_share_plain_headers_with_the_device(self):
        self.accepts("src/backends/one/one.cpp", '"kernels/swizzle.h"')
        self.refuses("src/backends/one/one.cpp", '"kernels/wgmma.cuh"', "only .h files")

    def test_programs_use_public_headers_only(self):
        self.write("cli/options.h", "")
        self.accepts("cli/main.cpp", '"culet/tuner.h"')
        self.accepts("cli/main.cpp", '"options.h"')
        self.refuses("cli/main.cpp", '"base/files.h"', "public headers")
        self.refuses("cli/main.cpp", '"../src/base/files.h"', "public headers")
        self.refuses("examples/01_matmul/main.cpp", '"tuner/race.h"', "public headers")

    def test_public_headers(self):
        self.accepts("include/culet/tuner.h", '"culet/cache.h"')
        self.accepts("include/culet/error.h", "<tl/expected.hpp>")
        self.refuses("include/culet/error.h", "<fmt/format.h>", "std and tl::expected only")
        self.refuses("include/culet/plan.h", '"base/files.h"', "other public headers")
        self.refuses("include/culet/dtype.h", '"culet/device.h"', "must not use device")
        self.refuses("include/culet/new.h", '"culet/error.h"', "unknown public header")

    def test_heavy_headers_stay_out_of_headers(self):
        self.accepts("src/cache/store.cpp", "<sqlite3.h>")
        self.refuses("src/cache/store.h", "<sqlite3.h>", "heavy")
        self.refuses("src/device/json.h", "<nlohmann/json.hpp>", "heavy")
        self.accepts("src/device/json.h", "<nlohmann/json_fwd.hpp>")  # names only

    def test_unknown_names(self):
        self.refuses("src/cache/store.cpp", '"nowhere.h"', "neither")
        self.refuses("src/newmodule/x.cpp", '"base/files.h"', "not in the layer table")

    def test_size_of_host_files(self):
        self.assertEqual(self.findings("src/base/long.cpp", "//\n" * 500), [])
        self.assertEqual(len(self.findings("src/base/long.cpp", "//\n" * 501)), 1)
        self.assertEqual(self.findings("src/kernels/long.cuh", "//\n" * 501), [])

    def test_exit_status(self):
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(check_layers.main([self.root]), 0)
            self.write("src/base/files.cpp", '#include "cache/store.h"\n')
            self.assertEqual(check_layers.main([self.root]), 1)
        self.assertIn("src/base/files.cpp:1:", out.getvalue())


if __name__ == "__main__":
    unittest.main()
