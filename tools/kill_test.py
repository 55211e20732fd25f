#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills `culet tune` again and again, several processes at once on one store, and checks what is left.

    tools/kill_test.py PROGRAM [--kills N] [--processes N] [--longest SECONDS] [--seed N] [--store DIR]

Each process tunes small problems on the CPU in an order of its own and gets SIGKILL at a random moment (a few end by
themselves). After each end, and at the end of all:

* every trial and every choice that a reader has once seen in the store is still there;
* `culet cache verify` finds nothing damaged and no entry under another's key (every 50 kills, and at the end);
* no worker process and no compiler of a killed process is left after some seconds;
* at the end a run without interruption works, and the same once more is answered by the store alone.

Exit status 0 and a last line "N kills: ..." if all of it holds; else 1 and what was wrong.
"""
import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

# More than a thousand kills leave time for, so that something new is written all along.
PROBLEMS = [f"{m}x{n}x{k}:f32" for m in (1, 2, 3, 5, 8, 16, 17) for n in (8, 16, 24, 33, 48, 64) for k in (4, 8, 20, 31)]
OPTIONS = ["--device", "cpu:1", "--top", "2", "--max-memory", "0.02", "--backends", "cpu_tile,openblas,onednn,reference"]


def store_file(program, env):
    return subprocess.run([program, "cache", "path"], env=env, capture_output=True, text=True).stdout.strip()


def read_store(path):
    """Keys of all trials and choices, as another process sees them; None while there is no store yet."""
    if not os.path.exists(path):
        return None
    try:
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
        try:
            trials = set(db.execute("SELECT problem, candidate, environment FROM trials"))
            choices = set(db.execute("SELECT problem, device, scope FROM selections"))
        finally:
            db.close()
    except sqlite3.OperationalError as error:
        # A first process may have been killed before the tables were made.
        if "no such table" in str(error):
            return None
        raise
    return trials, choices


def descendants(marker):
    """Processes that inherited our marker in their environment: workers and compilers; and culet itself."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if marker.encode() not in file.read():
                    continue
            with open(f"/proc/{entry}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] in "ZX":
                    continue
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                found.append((int(entry), file.read().replace(b"\0", b" ").decode(errors="replace")))
        except OSError:
            continue
    return found


class Failed(Exception):
    pass


class Harness:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.marker = f"CULET_KILL_TEST={os.getpid()}"
        name, value = self.marker.split("=")
        self.env = dict(os.environ, CULET_CACHE=options.store, **{name: value})
        self.path = store_file(options.program, self.env)
        self.trials, self.choices = set(), set()
        self.kills = self.ended = 0

    def start(self):
        problems = self.random.sample(PROBLEMS, self.random.randint(2, 8))
        # A third measures again what is stored, so that rows are replaced as well.
        fresh = ["--fresh"] if self.random.random() < 0.33 else []
        process = subprocess.Popen([self.options.program, "tune", *problems, *OPTIONS, *fresh], env=self.env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        # One in four lives up to four times as long: on a busy machine the others get nowhere.
        longest = self.options.longest * (4 if self.random.random() < 0.25 else 1)
        return process, time.monotonic() + self.random.uniform(0, longest)

    def check_store(self):
        seen = read_store(self.path)
        if seen is None:
            if self.trials:
                raise Failed("the store is gone")
            return
        for what, before, now in (("trials", self.trials, seen[0]), ("choices", self.choices, seen[1])):
            lost = before - now
            if lost:
                raise Failed(f"{len(lost)} {what} lost, for example {sorted(lost)[0]}")
        self.trials, self.choices = seen

    def verify(self):
        result = subprocess.run([self.options.program, "cache", "verify"], env=self.env, capture_output=True, text=True)
        if result.returncode != 0:
            raise Failed(f"cache verify: status {result.returncode}: {result.stdout}{result.stderr}")

    def run(self):
        running = []
        while self.kills < self.options.kills:
            while len(running) < self.options.processes:
                running.append(self.start())
            time.sleep(max(0.0, min(when for _, when in running) - time.monotonic()))
            now = time.monotonic()
            still = []
            for process, when in running:
                if process.poll() is None and when > now:
                    still.append((process, when))
                    continue
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                    self.kills += 1
                    if self.kills % 50 == 0:
                        self.verify()
                    if self.kills % 100 == 0:
                        print(f"  {self.kills} kills, {len(self.trials)} trials, {len(self.choices)} choices", flush=True)
                else:
                    self.ended += 1
                _, errors = process.communicate()
                if process.returncode not in (0, -signal.SIGKILL) or b"warning" in errors:
                    raise Failed(f"status {process.returncode}: {errors.decode(errors='replace')}")
                self.check_store()
            running = still
        for process, _ in running:
            process.kill()
            process.communicate()
        self.nothing_left()
        self.verify()
        self.check_store()
        self.uninterrupted_run()

    def nothing_left(self):
        deadline = time.monotonic() + 20
        while left := descendants(self.marker):
            if time.monotonic() > deadline:
                raise Failed("left running: " + "; ".join(f"{pid} {command}" for pid, command in left))
            time.sleep(0.2)

    def uninterrupted_run(self):
        problems = self.random.sample(PROBLEMS, 12)
        command = [self.options.program, "tune", *problems, *OPTIONS, "--format", "json"]
        for expected in ("works", "is answered by the store"):
            result = subprocess.run(command, env=self.env, capture_output=True, text=True)
            if result.returncode != 0 or "warning" in result.stderr:
                raise Failed(f"whether a run after all {expected}: status {result.returncode}: {result.stderr}")
        self.check_store()
        if '"compiled": 0' not in result.stdout or '"timed": 0' not in result.stdout:
            raise Failed("the store did not answer what it had answered before")
        if lost := set(problems) - {problem for problem, _, _ in self.choices}:
            raise Failed(f"no choice stored for {sorted(lost)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--longest", type=float, default=3.0, help="seconds most processes may live")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", help="folder of the store (a temporary one)")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    with tempfile.TemporaryDirectory(prefix="culet-kill-") as folder:
        options.store = options.store or folder
        harness = Harness(options)
        begin = time.monotonic()
        try:
            harness.run()
        except Failed as failure:
            print(f"after {harness.kills} kills: {failure}", file=sys.stderr)
            return 1
        finally:
            for pid, _ in descendants(harness.marker):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
    print(f"{harness.kills} kills: nothing lost, nothing damaged, nothing left running; {harness.ended} processes ended "
          f"by themselves, {len(harness.trials)} trials, {len(harness.choices)} choices, "
          f"{time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
