"""What every object carries: metadata, owners, conditions; and what its fields say beside their types.

The slim metadata leaves out managed fields; it is for reading and comparing, never for writing back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct, field

from kube_apimachinery import name_validation

# What a field says beside its type: words, bounds, defaults, rules. The CRDs are made from it.
#
# Bounds are for the API server. Decoding never enforces them: what another server let pass must still be readable.

INT32_LIMIT = 2**31 - 1
QUALIFIED_NAME_PATTERN = f"^({name_validation.KEY_PATTERN}/)?{name_validation.KEY_PATTERN}$"
DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$"
CONDITION_TYPE_PATTERN = rf"^({name_validation.SUBDOMAIN_PATTERN}/)?({name_validation.KEY_PATTERN})$"
REASON_PATTERN = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"


class Slim(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base of everything that is cached by the thousand: acyclic, tuples for lists, no trace in the collector.

    A slim object holds only the fields we read, so it is never written back as a whole.
    """


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule of a schema, with the message a user sees when it does not hold."""

    rule: str
    message: str
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool = False


@dataclass(frozen=True, slots=True)
class Removed:
    """A field that no longer exists: declared, so that it reaches the server and is refused instead of pruned."""

    name: str
    type: str  # array | object
    message: str


def _meta(description: str | None, **schema: Any) -> Meta:
    given = {key: value for key, value in schema.items() if value is not None}
    return Meta(description=description, extra_json_schema=given or None)


def doc(description: str, **schema: Any) -> Meta:
    """The words of a field, and anything else its schema should say."""
    return _meta(description, **schema)


def text(
    description: str | None = None,
    *,
    most: int | None = None,
    least: int | None = None,
    pattern: str | None = None,
    default: str | None = None,
) -> Meta:
    """A string of a bounded length."""
    return _meta(description, maxLength=most, minLength=least, pattern=pattern, default=default)


def one_of(description: str | None, *values: str, default: str | None = None) -> Meta:
    """A string out of a few."""
    return _meta(description, enum=list(values), default=default)


def number(
    description: str | None = None,
    *,
    least: float | None = None,
    most: float | None = None,
    default: float | None = None,
    wide: bool = False,
) -> Meta:
    """An integer (32 bits unless wide) or, for float fields, a number."""
    return _meta(description, minimum=least, maximum=most, default=default, format="int64" if wide else None)


def listed(
    description: str | None,
    *,
    most: int,
    least: int | None = None,
    keys: tuple[str, ...] = (),
    unique: bool = False,
    rules: tuple[Rule, ...] = (),
) -> Meta:
    """A list of a bounded length; merged by keys, a set, or replaced as a whole."""
    kind = "map" if keys else "set" if unique else "atomic"
    return _meta(
        description,
        maxItems=most,
        minItems=least,
        **{"x-kubernetes-list-type": kind, "x-kubernetes-list-map-keys": list(keys) or None},
        rules=rules or None,
    )


def mapped(description: str | None, *, most: int, rules: tuple[Rule, ...] = ()) -> Meta:
    """A map of a bounded size."""
    return _meta(description, maxProperties=most, rules=rules or None)


def opaque(description: str | None) -> Meta:
    """An object that we carry without looking inside."""
    return _meta(description, opaque=True)


Name = Annotated[str, text(most=name_validation.SUBDOMAIN_LIMIT)]
"""The name of an object, or a reference to one."""

LabelKey = Annotated[str, text(most=name_validation.QUALIFIED_NAME_LIMIT)]
Word = Annotated[str, text(most=name_validation.LABEL_LIMIT)]
Hash = Annotated[str, text(most=128)]
SelectorText = Annotated[str, text(most=4096)]
Message = Annotated[str, text(most=32768)]
Path = Annotated[str, text(most=4096)]
Duration = Annotated[str, text(most=64, pattern=DURATION_PATTERN)]
Timestamp = Annotated[str, _meta(None, format="date-time")]
MOST_PODS = 100_000
"""Of one PodCliqueSet, and the largest number that any count of replicas may be: no cluster has more."""
MOST_PODCLIQUES = 5_000
"""Of one PodCliqueSet: each is an object, and all of them are looked at together."""
Index = Annotated[int, number(least=0)]
Count = Annotated[int, number(least=0)]
Generation = Annotated[int, number(least=0, wide=True)]
Quantity = Annotated[str | int, _meta(None, quantity=True)]
Opaque = Annotated[dict[str, Any], opaque(None)]

LabelMap = Annotated[dict[str, Annotated[str, text(most=name_validation.LABEL_LIMIT)]], mapped(None, most=256)]
AnnotationMap = Annotated[dict[str, Annotated[str, text(most=262144)]], mapped(None, most=256)]
Resources = Annotated[dict[str, Quantity], mapped(None, most=128)]
OpaqueList = Annotated[tuple[Opaque, ...], listed(None, most=512)]
NameList = Annotated[tuple[Name, ...], listed(None, most=512)]


class OwnerReference(Slim, frozen=True):
    """Whose child an object is."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Slim, frozen=True):
    """The part of metadata that decisions are made on."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    generate_name: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages the object, if it has one."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class PartialObject(Slim, frozen=True):
    """Any object, as far as it concerns everybody: what it is and its metadata."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class Kind(Slim, frozen=True):
    """A kind of ours: where it is served, and the metadata all kinds have. The docstring describes it in its CRD."""

    GROUP: ClassVar[str]
    VERSION: ClassVar[str]
    KIND: ClassVar[str]
    PLURAL: ClassVar[str]
    NAMESPACED: ClassVar[bool] = True

    metadata: ObjectMeta


class Condition(Slim, frozen=True):
    """One observation about an object, in the standard form."""

    type: Annotated[
        str, text("What is observed.", most=name_validation.QUALIFIED_NAME_LIMIT - 1, pattern=CONDITION_TYPE_PATTERN)
    ]
    status: Annotated[str, one_of("Whether it holds.", "True", "False", "Unknown")]
    last_transition_time: Annotated[Timestamp, doc("When the status changed last.")]
    reason: Annotated[str, text("Why, in one word for programs.", least=1, most=1024, pattern=REASON_PATTERN)]
    message: Annotated[Message, doc("Why, in a sentence for people.")]
    observed_generation: Annotated[Generation, doc("The generation of the object that this was said about.")] = 0


Conditions = Annotated[tuple[Condition, ...], listed(None, most=32, keys=("type",))]


def condition(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """The condition of that type."""
    return next((one for one in conditions if one.type == kind), None)
