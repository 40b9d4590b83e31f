"""The three kinds of patches: JSON patch, merge patch, strategic merge patch."""

from spinney.serve.apiserver.patch.json_patch import json_patch
from spinney.serve.apiserver.patch.merge_patch import merge_patch
from spinney.serve.apiserver.patch.strategic import strategic_merge_patch

__all__ = ["json_patch", "merge_patch", "strategic_merge_patch"]
