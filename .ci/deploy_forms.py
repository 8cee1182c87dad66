"""Check the compose files of deploy and deploy/kubernetes.yaml against the schemas of Compose and Kubernetes."""

import sys
from pathlib import Path

import kubernetes_validate
import yaml
from compose_spec import PyCompose

DEPLOY = Path(__file__).resolve().parent.parent / "deploy"


def main() -> None:
    """Raise an error that names the place where a file is not of its schema."""
    for path in sorted(DEPLOY.rglob("compose*.yaml")):
        # Without merge keys, which the schema's parser does not know.
        PyCompose.from_yaml(yaml.safe_dump(yaml.safe_load(path.read_text()))).validate()
        print(path.relative_to(DEPLOY), "fits the Compose specification")
    for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()):
        version = kubernetes_validate.validate(one, "1.31", strict=True)
        print("kubernetes.yaml:", one["kind"], "fits Kubernetes", version)


sys.exit(main())
