"""Every YAML or JSON text that comes from outside is read here: plain values, or one kind of error.

Whatever the bytes, reading takes time and memory in proportion to the limits that the caller gives, and what comes out
is a tree of JSON values that can be walked by recursion. Never constructs anything else, and never opens a file.
"""

from spinney.api.documents.limits import BODY, FILE, INVENTORY, LINE, PAGE, DocumentError, Limits
from spinney.api.documents.reader import line_of, read_bounded, read_document, read_documents, read_json, read_json_as

__all__ = [
    "BODY",
    "FILE",
    "INVENTORY",
    "LINE",
    "PAGE",
    "DocumentError",
    "Limits",
    "line_of",
    "read_bounded",
    "read_document",
    "read_documents",
    "read_json",
    "read_json_as",
]
