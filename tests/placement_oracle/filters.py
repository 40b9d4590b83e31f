"""Which nodes a pod may use: ready, not cordoned, tolerated, selected."""

from __future__ import annotations

from placement_oracle.reading import Document, Node, TreeNode


def may_use(leaf: TreeNode, node: Node) -> bool:
    spec = leaf.spec
    selector = spec.get("nodeSelector") or {}
    return (
        node.schedulable
        and all(_tolerated(taint, spec.get("tolerations") or []) for taint in node.taints)
        and all(node.labels.get(key) == value for key, value in selector.items())
        and _affine(spec.get("affinity") or {}, node)
    )


def selected(leaf: TreeNode, node: Node) -> bool:
    """By its labels alone, whatever its taints and its state."""
    selector = leaf.spec.get("nodeSelector") or {}
    return all(node.labels.get(key) == value for key, value in selector.items()) and _affine(
        leaf.spec.get("affinity") or {}, node
    )


def ports_of(leaf: TreeNode) -> frozenset[int]:
    return frozenset(leaf.spec.get("hostPorts") or [])


def _tolerated(taint: Document, tolerations: list[Document]) -> bool:
    if taint.get("effect") not in ("NoSchedule", "NoExecute"):
        return True
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Document, taint: Document) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    exists = toleration.get("operator") == "Exists"
    if not toleration.get("key"):
        return exists
    same_value = (toleration.get("value") or "") == (taint.get("value") or "")
    return toleration["key"] == taint["key"] and (exists or same_value)


def _affine(affinity: Document, node: Node) -> bool:
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_term_holds(term, node) for term in required.get("nodeSelectorTerms") or [])


def _term_holds(term: Document, node: Node) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    named = {"metadata.name": node.name}
    return all(_holds(each, node.labels) for each in expressions) and all(_holds(each, named) for each in fields)


def _holds(expression: Document, values: dict[str, str]) -> bool:
    found, wanted = values.get(expression["key"]), expression.get("values") or []
    match expression["operator"]:
        case "In":
            return found in wanted
        case "NotIn":
            return found not in wanted
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt":
            return found is not None and _is_whole(found) and int(found) > int(wanted[0])
        case "Lt":
            return found is not None and _is_whole(found) and int(found) < int(wanted[0])
        case other:
            raise ValueError(f"unknown operator {other}")


def _is_whole(text: str) -> bool:
    return text.lstrip("+-").isdigit()
