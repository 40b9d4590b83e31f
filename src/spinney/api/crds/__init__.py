"""CustomResourceDefinitions, generated from the types."""

from spinney.api.crds.catalog import Conversion, all_crds, crd

__all__ = ["Conversion", "all_crds", "crd"]
