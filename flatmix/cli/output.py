"""values -> standard output: what several commands print in the same way."""

import json
import sys
from typing import Any


def print_json(value: Any) -> None:
    """Text as it is where standard output is UTF-8, and escaped as JSON escapes it elsewhere."""
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "").replace("_", "")
    print(json.dumps(value, ensure_ascii=encoding != "utf8", indent=2))
