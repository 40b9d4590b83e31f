"""Known differences of the embedded server: each must stay one (strict), and each is told to its users.

The list for people is in docs/embedded-api-server.md.
"""

from __future__ import annotations

import pytest

DIFFERENCES = {
    "test_bad_input.py::test_a_deep_custom_body_below_the_limit_is_read[embedded]": "300 levels of nesting, not 10,000",
    "test_bad_input.py::test_paths_and_methods_that_are_not_there[embedded-an invented method]": (
        "a method that HTTP does not know is answered 400 by the parser, not 405"
    ),
    "test_definitions.py::test_a_bad_definition_is_refused[embedded-a CEL rule that may cost too much]": (
        "the cost of CEL rules is not estimated"
    ),
    "test_webhooks.py::test_match_conditions[embedded-authorizer]": "no authorizer in matchConditions",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for case, reason in DIFFERENCES.items():
            if item.nodeid.endswith(case):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
