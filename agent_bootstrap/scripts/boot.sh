# What the stub of user data runs once it has fetched it. Everything here may be repeated after a crash or a reboot.
# What tests set: WINDLASS_PREFIX, WINDLASS_AGENT_CONFIG, WINDLASS_JOIN_OPTIONS, WINDLASS_ROOT.
FILES=$DIR/files
# The root of what a bake removes. Never that of the machine where tests run.
ROOT=${WINDLASS_ROOT-${WINDLASS_BOOT_DIR:+$WINDLASS_BOOT_DIR.root}}
# What an image says of how it was baked.
BAKED=${DIR%/*}/baked
PREFIX=${WINDLASS_PREFIX:-/opt/windlass}
CONFIG=${WINDLASS_AGENT_CONFIG:-/etc/windlass/agent.yaml}
VERSION=$(cat "$FILES/version")

# stage NAME WORDS
stage() {
  say "$2"
  printf '%s' "$2" | tell "$1"
}

# once SCRIPT WORDS: of the pool, once on each machine. Its output may hold secrets: it stays on the machine.
once() {
  [ -e "$FILES/$1" ] && [ ! -e "$DIR/$1.done" ] || return 0
  stage "$2" "running the $1 of pool $POOL"
  chmod 700 "$FILES/$1"
  "$FILES/$1" >"$DIR/$1.log" 2>&1 </dev/null 9>&- ||
    fail "the pool's $1 ended with exit code $?; its output is in $DIR/$1.log" "$(end_of "$DIR/$1.log")"
  : >"$DIR/$1.done"
}

# What it did is on an image that was baked with the same script.
startup_script() {
  [ -e "$FILES/startup_script" ] && (cd "$FILES" && sha256sum --check --status "$BAKED/startup_script") 2>/dev/null ||
    once startup_script startup-script
}

# The program of this version: on the image, or of an earlier run. Sets WINDLASS.
program() {
  for WINDLASS in "$PREFIX/current/bin/windlass" "$(command -v windlass)"; do
    [ "$("$WINDLASS" --version 2>/dev/null)" = "windlass $VERSION" ] || continue
    # What was installed by hand counts by its version alone.
    [ "$WINDLASS" != "$PREFIX/current/bin/windlass" ] || [ ! -e "$PREFIX/source" ] || is_wanted || continue
    return
  done
  WINDLASS=
}

# Whether what a boot installed is what it would install now: another build may have the same version.
is_wanted() {
  source_of_software
  cmp -s "$DIR/source" "$PREFIX/source"
}

# What the software is to be from: a container image, or the master's wheels with their digests.
source_of_software() {
  if [ -e "$FILES/image" ]; then
    cp "$FILES/image" "$DIR/source"
  else
    download "/wheels?instance=$INSTANCE" "$DIR/source"
  fi
}

# Around what is put into $PREFIX: a boot that dies in between finds a source that is nobody's, and installs again.
installing() {
  mkdir -p "$PREFIX"
  : >"$PREFIX/source"
}

installed() {
  cp "$DIR/source" "$PREFIX/source"
}

python() {
  for candidate in python3.14 python3.13 python3.12 python3.11 python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
}

# From the wheels that the master serves: the machine needs no package index.
install_wheels() {
  stage software "installing windlass $VERSION from the master's wheels"
  python=$(python)
  [ -n "$python" ] || fail "the image has neither windlass $VERSION nor a Python from 3.11 on with venv and ensurepip"
  mkdir -p "$DIR/wheels"
  source_of_software
  while read -r sum name; do
    download "/wheels/$name?instance=$INSTANCE" "$DIR/wheels/$name"
  done <"$DIR/source"
  (cd "$DIR/wheels" && sha256sum --check --quiet "$DIR/source") >"$DIR/install.log" 2>&1 ||
    fail "wheels of the master are damaged: $(end_of "$DIR/install.log")"
  umask 022
  installing
  rm -rf "$PREFIX/boot"
  "$python" -m venv "$PREFIX/boot" >"$DIR/install.log" 2>&1 &&
    "$PREFIX/boot/bin/python" -m pip install -q --disable-pip-version-check --no-input --no-index \
      --find-links "$DIR/wheels" "$DISTRIBUTION[agent]==$VERSION" >>"$DIR/install.log" 2>&1 ||
    fail "windlass cannot be installed from the master's wheels: $(end_of "$DIR/install.log")"
  ln -sfn boot "$PREFIX/current"
  installed
  umask 077
  rm -rf "$DIR/wheels"
}

# From a container image: what it has in /opt/windlass. Nothing of it runs in a container. The engines read logins of
# registries from config.json.
take_from_image() {
  stage image "taking windlass $VERSION from the image $IMAGE"
  engine=$(command -v podman || command -v docker) ||
    fail "the machine's image has neither podman nor docker, which agent_docker_image needs"
  PAUSE=1
  until in_engine pull -q "$IMAGE"; do
    again "the image $IMAGE cannot be pulled: $(end_of "$DIR/image.log")"
  done
  in_engine create "$IMAGE" true || fail "the image $IMAGE cannot be used: $(end_of "$DIR/image.log")"
  container=$(tail -n 1 "$DIR/image.log")
  source_of_software
  umask 022
  installing
  in_engine cp "$container:/opt/windlass/." "$PREFIX" ||
    fail "the image $IMAGE has no /opt/windlass: $(end_of "$DIR/image.log")"
  installed
  umask 077
  in_engine rm -f "$container"
  in_engine rmi "$IMAGE"
}

in_engine() {
  REGISTRY_AUTH_FILE=$FILES/config.json DOCKER_CONFIG=$FILES "$engine" "$@" >"$DIR/image.log" 2>&1 </dev/null 9>&-
}

join() {
  stage join "joining as $INSTANCE"
  set -- "$MASTER_URL" --token-file "$DIR/token" --agent-id "$INSTANCE" --set "instance_id=$INSTANCE"
  set -- "$@" --set "metadata_service=$METADATA" --set "cloud=$CLOUD"
  [ -z "$MASTER_CERT" ] || set -- "$@" --master-cert "$DIR/master.pem"
  [ -z "$CERT_NAME" ] || set -- "$@" --master-cert-name "$CERT_NAME"
  if [ ! -e "$CONFIG" ]; then
    mkdir -p "${CONFIG%/*}"
    cp "$FILES/agent.yaml" "$CONFIG"
  fi
  PAUSE=1
  # shellcheck disable=SC2086 # several words
  until "$WINDLASS" agent join "$@" ${WINDLASS_JOIN_OPTIONS-} >"$DIR/join.log" 2>&1 </dev/null 9>&-; do
    [ $? != 2 ] || fail "agent.yaml of the pool is wrong: $(end_of "$DIR/join.log")"
    again "$(end_of "$DIR/join.log")"
  done
}

# The images that tasks start from, into the engine's own store.
pull_images() {
  [ -s "$FILES/pulled" ] || return 0
  engine=$(command -v podman || command -v docker) ||
    fail "the machine's image has neither podman nor docker, which bake_images needs: let startup_script install one"
  while read -r IMAGE; do
    stage images "pulling the image $IMAGE"
    PAUSE=1
    until in_engine pull -q "$IMAGE"; do
      again "the image $IMAGE cannot be pulled: $(end_of "$DIR/image.log")"
    done
  done <"$FILES/pulled"
}

# What no other machine may have: who this one is, who may enter it, what was written on it.
remove_identity() {
  # Not `:`, which ends a shell that cannot write.
  [ ! -e "$ROOT/etc/machine-id" ] || truncate -s 0 "$ROOT/etc/machine-id"
  rm -f "$ROOT/var/lib/dbus/machine-id" "$ROOT/var/lib/systemd/random-seed" "$ROOT/var/lib/systemd/credential.secret"
  rm -f "$ROOT"/etc/ssh/ssh_host_* "$ROOT"/root/.ssh/authorized_keys "$ROOT"/home/*/.ssh/authorized_keys
  rm -f "$ROOT"/root/.*_history "$ROOT"/home/*/.*_history "$ROOT"/var/lib/dhcp/*.lease* "$ROOT"/var/lib/NetworkManager/*.lease
  rm -rf "$ROOT"/var/lib/cloud/instance "$ROOT"/var/lib/cloud/instances "$ROOT"/var/lib/cloud/sem "$ROOT"/var/lib/cloud/data
  rm -rf "$ROOT"/var/log/journal/* "$ROOT"/tmp/* "$ROOT"/var/tmp/*
  find "$ROOT/var/log" -type f -exec truncate -s 0 {} +
}

# Ends with the machine: it has said that it has all, and stops, so that its disk can become an image.
bake() {
  pull_images
  stage clean "removing what is of this machine only"
  rm -rf "$BAKED"
  mkdir -p "$BAKED"
  echo "windlass $VERSION" >"$BAKED/software"
  [ ! -e "$FILES/startup_script" ] || (cd "$FILES" && sha256sum startup_script) >"$BAKED/startup_script"
  remove_identity >"$DIR/clean.log" 2>&1
  BEGAN=$(cut -d. -f1 /proc/uptime)
  PAUSE=1
  # Nobody makes an image of a machine whose word was not written down.
  until [ "$(printf 'everything is installed' | ask --max-time 60 --output "$DIR/said" --data-binary @- \
    "$BOOT_URL/stage?instance=$INSTANCE&stage=baked")" = 200 ]; do
    again "the master has not taken that everything is installed: $(end_of "$DIR/said")"
  done
  say "$INSTANCE has everything, and stops"
  rm -rf "$DIR"
  sync
  ${WINDLASS_END_MACHINE:-shutdown -h now}
  exit 0
}

DISTRIBUTION=$(cat "$FILES/distribution")
startup_script
program
if [ -z "$WINDLASS" ] && [ -e "$FILES/image" ]; then
  IMAGE=$(cat "$FILES/image")
  take_from_image
  program
  [ -n "$WINDLASS" ] || fail "the image $IMAGE has no windlass $VERSION in /opt/windlass/current/bin that runs here"
elif [ -z "$WINDLASS" ]; then
  install_wheels
  WINDLASS=$PREFIX/current/bin/windlass
fi
[ ! -e "$FILES/bake" ] || bake
once machine_script machine-script
join
echo "$INSTANCE" >"$DIR/joined"
rm -f "$DIR/token" "$DIR/master.curl" "$FILES/config.json"
say "$INSTANCE has joined"
