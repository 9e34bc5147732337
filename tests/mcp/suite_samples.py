"""What the conformance suite's sample tools run: `text` answers, `error` fails, `wait` answers after 1.2 s.

Usage: suite_samples.py text|error|wait
"""

from __future__ import annotations

import json
import sys
import time


def main(what: str) -> int:
    if what == "error":
        print("this sample fails on purpose", file=sys.stderr)
        return 2
    if what == "wait":
        time.sleep(1.2)
    print(json.dumps({"schema": "suite/sample/1", "text": f"the sample '{what}' has run"}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
