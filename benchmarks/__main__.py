"""Every benchmark, one after the other: ``python -m benchmarks``, or ``make bench``."""

import subprocess
import sys

BENCHMARKS = ("fetching", "receiver", "steady_stream")


def main() -> int:
    codes = []
    for name in BENCHMARKS:
        print(f"== {name}", flush=True)
        codes.append(subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
