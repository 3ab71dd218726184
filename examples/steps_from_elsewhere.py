"""The analysis alone, on steps to result that were measured elsewhere.

Nothing but a table is needed, and JAX is not even imported.
"""

import json
from pathlib import Path

from replicax.analysis import fit_hyperbola

GOLDENS = Path(__file__).parent.parent / "tests" / "goldens"

if __name__ == "__main__":
    published = json.loads((GOLDENS / "shallue_2019_resnet8_cifar10.json").read_text())
    print(json.dumps(published, indent=1)[:600])
