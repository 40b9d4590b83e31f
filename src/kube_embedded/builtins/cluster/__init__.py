"""Kinds around pods: namespaces, nodes, storage, devices, services, quotas, events and the like."""
