"""How users log in to a shell: a key pair of its own, made when it is launched."""

from __future__ import annotations

from collections.abc import Iterable

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from master.allocations.peer_ssh import SSH_DIR
from master.config.sections import Ssh
from rm_backends.base import TaskFile
from windlass.base.formats.json_types import JsonMapping

PRIVATE, PUBLIC = "private_key", "public_key"


def new_keys(options: Ssh) -> JsonMapping:
    """In the forms that clients of every age read: OpenSSH's for Ed25519, PEM for the others."""
    key: Ed25519PrivateKey | rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    form = PrivateFormat.TraditionalOpenSSL
    match options.key_type:
        case "ED25519":
            key, form = Ed25519PrivateKey.generate(), PrivateFormat.OpenSSH
        case "ECDSA":
            key = ec.generate_private_key(ec.SECP256R1())
        case "RSA":
            key = rsa.generate_private_key(65537, options.rsa_key_size)
    private = key.private_bytes(Encoding.PEM, form, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return {PRIVATE: private.decode(), PUBLIC: public.decode() + "\n"}


def shell_files(keys: JsonMapping) -> Iterable[TaskFile]:
    """The private key is the host key too: who has it knows whom it talks to."""
    private, public = str(keys[PRIVATE]), str(keys[PUBLIC])
    contents = {"id_rsa": private, "id_rsa.pub": public}
    for name, content in contents.items():
        yield TaskFile(path=f"{SSH_DIR}/{name}", content=content.encode(), mode=0o600)
