#!/usr/bin/env python3
"""Interop and fault tests of Tenon with unmodified RocketMQ clients, brokers and tools.

Needs the release build (build/release/bin, or TENON_BIN); see README.md next to this file.
"""
import argparse
import os
import signal
import sys

from lib import cluster, runner
from cases import admin, clients, faults, filters, groups, messaging, mixed, namesrv, retention, sdk, spread, store, store_matrix, timer, transactions, way_back  # noqa: F401 (they register their tests)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", help="run only tests whose name contains one of these")
    p.add_argument("--against", choices=("tenon", "java"), default="tenon", help="java: run the client part against the official broker, which checks the tests themselves")
    p.add_argument("--jobs", type=int, default=3, help="tests at a time (default 3: they mostly wait; those that measure run alone)")
    p.add_argument("--no-skip", action="store_true", help="a skipped test counts as failed (CI)")
    p.add_argument("--keep", action="store_true", help="keep stores and logs")
    p.add_argument("--list", action="store_true", help="only list the tests")
    a = p.parse_args()
    if a.list:
        for c in runner.CASES:
            print(c.name + ("" if c.java_too else "  (Tenon only)") + f"  {(c.function.__doc__ or '').splitlines()[0] if c.function.__doc__ else ''}")
        return 0

    def broken_off(*_):
        print("broken off", flush=True)
        cluster.end_everything()
        os._exit(130)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, broken_off)
    return runner.Runner(a.against, a.names, a.keep, a.no_skip, a.jobs).run()


if __name__ == "__main__":
    sys.exit(main())
