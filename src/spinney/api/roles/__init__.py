"""What each role of ours may do on an API server: exactly what it does there."""

from spinney.api.roles.catalog import ROLES, Grant, RoleRights
from spinney.api.roles.objects import NAMESPACE, Names, metrics_roles, rbac_objects, tenant_roles, user_of, users_in

__all__ = [
    "NAMESPACE",
    "ROLES",
    "Grant",
    "Names",
    "RoleRights",
    "metrics_roles",
    "rbac_objects",
    "tenant_roles",
    "user_of",
    "users_in",
]
