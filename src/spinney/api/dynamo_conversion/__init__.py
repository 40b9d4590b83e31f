"""DynamoGraphDeployments between their shapes: v1alpha1, v1beta1, and the list form of the design document (D12)."""

from spinney.api.dynamo_conversion.objects import (
    ALPHA,
    BETA,
    ConversionError,
    convert,
    from_list_form,
    to_alpha,
    to_beta,
)

__all__ = ["ALPHA", "BETA", "ConversionError", "convert", "from_list_form", "to_alpha", "to_beta"]
