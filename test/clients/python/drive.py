"""
Makes one Python library do what the tests ask, a line of JSON at a time on standard input, and answers each line by one.
The library gets address, key, model and messages, and its own defaults for all else. An error is told by its class,
status, type and text.
"""

import importlib
import json
import sys


def failure_of(error):
    body = getattr(error, "body", None)
    inner = body if isinstance(body, dict) else {}
    return {
        "name": type(error).__name__,
        "status": getattr(error, "status_code", None),
        "type": getattr(error, "type", None) or inner.get("type"),
        "message": str(error),
    }


def main():
    library = importlib.import_module(f"with_{sys.argv[1]}")
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = {"value": getattr(library, order["do"])(order)}
        except Exception as error:  # whatever a library throws is what the test wants to know
            answer = {"failure": failure_of(error)}
        print(json.dumps(answer), flush=True)


main()
