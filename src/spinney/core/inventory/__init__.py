"""The model of the cluster: nodes, topology trees and pods, updated by changes, with checkpoint and rollback."""
