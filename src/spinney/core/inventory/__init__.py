"""What is there: nodes, topology trees and pods, folded from changes, with checkpoint and rollback."""
