"""Label and field selectors."""

from __future__ import annotations

import pytest

from kube_apimachinery.selectors import SelectorError, from_object, parse_fields, parse_labels

LABELS = {"app": "web", "tier": "front", "size": "5"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("app=web", True),
        ("app==web", True),
        ("app!=web", False),
        ("other!=x", True),
        ("app in (web, db)", True),
        ("app notin (web)", False),
        ("other notin (web)", True),
        ("app=web,tier=back", False),
        (" app = web , !other ", True),
        ("size>4", True),
        ("size<5", False),
        ("app>1", False),
        ("app in ()", False),
        ("app=", False),
    ],
)
def test_a_label_selector_matches_as_kubernetes_does(text: str, matches: bool) -> None:
    assert parse_labels(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("a in x", "unable to parse requirement: found 'x' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a>x", "the value must be an integer"),
        ("-a=x", "name part must consist of alphanumeric characters"),
        ("a=-b", "a valid label must be an empty string"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
    ],
)
def test_a_text_that_is_no_label_selector_is_refused_with_its_reason(text: str, complaint: str) -> None:
    with pytest.raises(SelectorError) as refusal:
        parse_labels(text)
    assert complaint in str(refusal.value)


@pytest.mark.parametrize("text", ["app=web", "!a,b in (x,y),c notin (x,y),d,e!=1,f>2,g<3"])
def test_a_selector_prints_as_it_was_written(text: str) -> None:
    assert str(parse_labels(text)) in (text, ",".join(sorted(text.split(","))))
    assert parse_labels(str(parse_labels(text))) == parse_labels(text)


def test_an_absent_label_selector_object_selects_nothing_and_an_empty_one_everything() -> None:
    assert not from_object(None).matches({})
    assert from_object({}).matches({"a": "b"})


def test_a_label_selector_object_joins_labels_and_expressions() -> None:
    selector = from_object(
        {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["back"]}]}
    )
    assert selector.matches(LABELS)
    assert not selector.matches({**LABELS, "tier": "back"})
    assert not selector.matches({"tier": "front"})


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(SelectorError, match="is not a valid label selector operator"):
        from_object({"matchExpressions": [{"key": "a", "operator": "Like"}]})


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name==a,spec.nodeName!=n", True),
        ("spec.nodeName=", True),
        ("metadata.name!=a", False),
        (r"x=b\,c", False),
    ],
)
def test_a_field_selector_matches_the_given_fields(text: str, matches: bool) -> None:
    assert parse_fields(text).matches({"metadata.name": "a", "spec.nodeName": ""}) is matches


def test_an_escaped_value_is_unescaped() -> None:
    assert parse_fields(r"x=b\,c\=d\\").terms[0].value == "b,c=d\\"
    assert parse_fields("x=1,y=2").fields == ("x", "y")
    assert parse_fields("x=1,y!=2").required("y") is None
    assert parse_fields("x=1,y!=2").required("x") == "1"


@pytest.mark.parametrize("text", ["x", "x=a=b", "x=\\y", "x=a\\"])
def test_a_text_that_is_no_field_selector_is_refused(text: str) -> None:
    with pytest.raises(SelectorError, match="invalid"):
        parse_fields(text)
