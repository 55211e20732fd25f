#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include "..." of the repository against the layers of docs/design.md, and the sizes of host files.

    tools/check_layers.py [ROOT]

* A module of src/ includes its own files, modules of lower layers, and of its own layer only those named in EDGES.
* A module's header is reached by its path below src/ ("cache/store.h"); public headers are "culet/...". A public header
  belongs to the module that implements it, and may be included by whoever may use that module.
* Device files (src/kernels) include only device files.
* Programs outside the library (cli, python, examples, benchmarks) include public headers and their own files only.
* Host files have at most 500 lines.

Exit status 1 and one line "file:line: why" for each thing found.
"""
import os
import re
import sys

# Layer of each module; docs/design.md has the same table.
LAYERS = [
    ["base"],
    ["problem", "candidate"],
    ["device"],
    ["ranking", "codegen", "cache", "selection", "compile", "launch", "benchmark"],
    ["backends"],
    ["tuner", "bundle"],
    ["fleet", "report"],
    ["capi", "cli", "python"],
]
# Edges allowed within a layer: module -> modules it may use.
EDGES = {
    "candidate": {"problem"},
    "compile": {"codegen", "cache"},
    "launch": {"cache"},
    "benchmark": {"launch", "compile", "codegen"},  # its own checking kernels are compiled like any other
}
# Modules of layer 3 that are pure data: of the machine they see descriptions (culet/device.h), never its loaders.
PURE = {"ranking", "codegen", "selection"}

# The module that implements each public header. Their own includes are checked like a module's, with one liberty: a
# header may use the *types* of another public header of any layer up to TYPES_LAYER, since types are data
# (a stored Trial, a backend's Features) and only functions make a dependency.
PUBLIC = {
    "error": "base", "version": "base", "dtype": "problem", "epilogue": "problem", "problem": "problem",
    "candidate": "candidate", "host_kernel": "candidate", "device": "device",
    "backend": "backends", "ranking": "ranking", "registry": "backends", "report": "report",
    "cache": "cache", "exchange": "cache", "overrides": "cache", "compare": "report",
    "plan": "launch", "tuner": "tuner", "matmul": "tuner", "culet": "report",
    "settings": "tuner", "worker": "tuner", "doctor": "report", "run_log": "report", "bundle": "bundle", "capi": "capi",
}

MAX_HOST_LINES = 500
HOST = (".h", ".cpp")
INCLUDE = re.compile(r'\s*#\s*include\s*"([^"]+)"')
# What a raw string holds is another program's text: a kernel's source, say.
RAW_STRING = re.compile(r'R"(\w*)\(.*?\)\1"', re.DOTALL)
SYSTEM = re.compile(r"\s*#\s*include\s*<([^>]+)>")
LAYER_OF = {module: layer for layer, modules in enumerate(LAYERS) for module in modules}

# Headers so heavy that only .cpp files may include them.
HEAVY = ("nlohmann/json.hpp", "sqlite3.h", "CLI/", "pybind11/", "nanobind/", "dnnl", "cuda.h", "cuda_runtime", "nvrtc",
         "cublas")
# What a public header may include of the system: the standard library and tl::expected.
PUBLIC_SYSTEM = re.compile(r"^([a-z_0-9]+|tl/expected\.hpp)$")


def may_use(user, used):
    """Whether module `user` may include headers of module `used`."""
    if user == used:
        return True
    if used not in LAYER_OF or user not in LAYER_OF:
        return False
    if LAYER_OF[used] == LAYER_OF[user]:
        return used in EDGES.get(user, ())
    return LAYER_OF[used] < LAYER_OF[user]


# Types that lower modules need although the header's functions belong higher up. Each entry says why.
PUBLIC_TYPES_FOR = {
    "backend": "Features, Support and the Backend interface: what ranking estimates and codegen renders",
    "ranking": "Estimate: a field of every Trial",
    "report": "Trial and Outcome: what cache stores, benchmark fills and selection reads",
    "registry": "RankedCandidate: how a Trial's candidate was found",
    "plan": "Stream and Workspace: what a loaded step is given",
    "cache": "the Cache interface",
    "tuner": "MeasurePolicy: what the benchmark is told to do",
}


def public_include_error(user, header):
    """Why module `user` must not include the public header culet/<header>.h; empty if it may."""
    owner = PUBLIC.get(header)
    if owner is None:
        return f"unknown public header culet/{header}.h (add it to PUBLIC in tools/check_layers.py)"
    if may_use(user, owner):
        return ""
    if header in PUBLIC_TYPES_FOR and LAYER_OF.get(user, -1) >= 1:
        return ""
    return f"{user} (layer {LAYER_OF[user]}) must not use {owner} (layer {LAYER_OF[owner]})"


def module_of(path):
    """The module of a file below src/: 'cache', or 'backends' for src/backends/<folder>/..."""
    return path.split("/")[1]


def check_include(root, path, target):
    """Why the file `path` must not include "target"; empty if it may."""
    top = path.split("/")[0]
    folder = os.path.dirname(path)
    beside = os.path.normpath(os.path.join(folder, target))

    if path.startswith("src/kernels/"):
        for candidate in (beside, os.path.normpath(os.path.join("src/kernels", target))):
            if candidate.startswith("src/kernels/") and os.path.exists(os.path.join(root, candidate)):
                return ""
        return "a device file includes only device files"

    if top in ("cli", "python", "examples", "benchmarks"):
        if target.startswith("culet/"):
            return ""
        for own in (beside, os.path.normpath(os.path.join(top, target))):
            if own.startswith(top + "/") and os.path.exists(os.path.join(root, own)):
                return ""
        return f"{top} uses public headers (culet/...) and its own files only"

    if top == "include":
        if target.startswith("culet/"):
            return ""
        return 'a public header includes other public headers as "culet/..." only'

    user = module_of(path)
    if user not in LAYER_OF:
        return f"module {user} is not in the layer table"
    if target.startswith("culet/"):
        return public_include_error(user, target[len("culet/"):-len(".h")])
    if os.path.exists(os.path.join(root, beside)) and beside.startswith(f"src/{user}/"):
        used = user
    elif "/" in target and os.path.exists(os.path.join(root, "src", target)):
        used = target.split("/")[0]
    else:
        return f'"{target}" is neither a file of the module, nor below src/, nor a public header'
    if used == "kernels":
        # Index maths is shared with the device; such headers say so by being plain .h files.
        return "" if target.endswith(".h") else "host files include only .h files of src/kernels"
    if user in PURE and used == "device":
        return f"{user} is pure data: it may use culet/device.h, not the device module"
    if user == "backends" and used == "backends":
        return backend_include_error(path, target)
    if not may_use(user, used):
        return f"{user} (layer {LAYER_OF[user]}) must not use {used} (layer {LAYER_OF[used]})"
    return ""


def backend_include_error(path, target):
    """Backends are independent of each other: a folder uses its own files and those in src/backends itself."""
    parts = path.split("/")
    own = parts[2] if len(parts) > 3 else ""
    other = target.split("/")[1] if target.startswith("backends/") and target.count("/") > 1 else own
    if not own or other in ("", own, "common"):
        return ""
    return f"backend {own} must not use backend {other}"


def public_order_error(path, target):
    """Public headers must not include each other in a circle; `order` is by owner's layer, types apart."""
    user = PUBLIC.get(os.path.basename(path)[:-2])
    if user is None:
        return f"unknown public header {path} (add it to PUBLIC in tools/check_layers.py)"
    return public_include_error(user, target[len("culet/"):-len(".h")])


def files(root):
    for top in ("src", "include", "cli", "python", "examples", "benchmarks"):
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(names):
                if name.endswith((".h", ".cpp", ".cuh", ".cu")):
                    yield os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")


def check_file(root, path):
    """All findings in one file, as (line, text)."""
    found = []
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read()
    lines = RAW_STRING.sub(lambda raw: "\n" * raw.group().count("\n"), text).splitlines()
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match:
            reason = check_include(root, path, match.group(1))
            if not reason and path.startswith("include/"):
                reason = public_order_error(path, match.group(1))
            if reason:
                found.append((number, f'#include "{match.group(1)}": {reason}'))
        match = SYSTEM.match(line)
        if match:
            name = match.group(1)
            if path.startswith("include/") and not PUBLIC_SYSTEM.match(name):
                found.append((number, f"#include <{name}>: public headers use std and tl::expected only"))
            elif path.endswith(".h") and not path.startswith("src/kernels/") and name.startswith(HEAVY):
                found.append((number, f"#include <{name}>: a heavy header belongs in a .cpp file"))
            elif path.startswith("src/kernels/") and path.endswith(".cuh"):
                found.append((number, f"#include <{name}>: device files include no system header"))
    if path.endswith(HOST) and not path.startswith("src/kernels/") and len(lines) > MAX_HOST_LINES:
        found.append((len(lines), f"{len(lines)} lines, at most {MAX_HOST_LINES}"))
    return found


def main(arguments):
    root = arguments[0] if arguments else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    count, bad = 0, 0
    for path in files(root):
        count += 1
        for line, text in check_file(root, path):
            bad += 1
            print(f"{path}:{line}: {text}")
    if bad:
        print(f"layers: FAILED, {bad} found", file=sys.stderr)
        return 1
    print(f"layers: {count} files keep to the layers")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
