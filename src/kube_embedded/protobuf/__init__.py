"""Request bodies in Kubernetes' protobuf form, turned into the JSON objects that the server works with.

Answers are never written in protobuf.
"""

from kube_embedded.protobuf.messages import decode

__all__ = ["decode"]
