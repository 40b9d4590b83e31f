"""Why a gang was refused: who is to blame, how close it came, what is in the way, what would help."""
