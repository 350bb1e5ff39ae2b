# May run at every boot of the machine. What tests set: WINDLASS_BOOT_DIR, WINDLASS_METADATA, WINDLASS_END_MACHINE.
set -u
umask 077
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
DIR=${WINDLASS_BOOT_DIR:-/var/lib/windlass/boot}
METADATA=${WINDLASS_METADATA:-http://169.254.169.254}
BEGAN=$(cut -d. -f1 /proc/uptime)

say() { echo "windlass: $*"; }

waited_s() { echo $(($(cut -d. -f1 /proc/uptime) - BEGAN)); }

# The end of a file in one printable line, whatever it holds.
end_of() { tail -c 600 "$1" 2>/dev/null | tr '\r\n' '  ' | LC_ALL=C tr -cd '[:print:]' | tail -c 400; }

# Asks the master; prints the HTTP status, 000 without an answer. The token is in a file: no command line shows it.
ask() {
  curl --config "$DIR/master.curl" --write-out '%{http_code}' "$@" 2>"$DIR/curl.err"
}

# tell STAGE, with the details on its standard input. A master that does not hear it misses nothing else.
tell() {
  ask --max-time 20 --output /dev/null --data-binary @- "$BOOT_URL/stage?instance=$INSTANCE&stage=$1" >/dev/null
}

# fail WHY [DETAILS]: ends the machine, which would only cost money. Details may be secret: only the master's log has them.
fail() {
  say "$1. This machine ends itself."
  printf '%s\n%s' "$1" "${2-}" | tell failed
  ${WINDLASS_END_MACHINE:-shutdown -h now}
  exit 1
}

# again WHY: waits a little longer each time; a machine without a master ends itself.
again() {
  [ "$1" = "${SAID-}" ] || say "waiting: $1"
  SAID=$1
  [ "$(waited_s)" -lt "$PATIENCE_S" ] || fail "no agent after $PATIENCE_S s: $1"
  sleep "$PAUSE"
  [ "$PAUSE" -ge 16 ] || PAUSE=$((PAUSE * 2))
}

# download PATH FILE: from the master, until it answers.
download() {
  PAUSE=1
  while :; do
    status=$(ask --output "$2.part" "$BOOT_URL$1")
    case $status in
      200) mv "$2.part" "$2"; return ;;
      401 | 403 | 422) fail "the master refused this machine: $(end_of "$2.part")" ;;
      000) again "no answer from $BOOT_URL: $(end_of "$DIR/curl.err")" ;;
      *) again "$BOOT_URL answers HTTP $status: $(end_of "$2.part")" ;;
    esac
  done
}

metadata() {
  curl --silent --show-error --fail --noproxy '*' --connect-timeout 5 --max-time 10 "$@" 2>"$DIR/curl.err"
}

instance_id() {
  case $CLOUD in
    aws)
      session=$(metadata --request PUT --header 'X-aws-ec2-metadata-token-ttl-seconds: 300' "$METADATA/latest/api/token") &&
        metadata --header "X-aws-ec2-metadata-token: $session" "$METADATA/latest/meta-data/instance-id"
      ;;
    gcp) metadata --header 'Metadata-Flavor: Google' "$METADATA/computeMetadata/v1/instance/name" ;;
  esac
}

main() {
  mkdir -p "$DIR" || exit 1
  exec 9>"$DIR/lock"
  flock -n 9 || { say "another run is under way"; exit 0; }
  INSTANCE=
  PAUSE=1
  until INSTANCE=$(instance_id) && [ -n "$INSTANCE" ]; do
    again "no instance id from $METADATA: $(end_of "$DIR/curl.err")"
  done
  if [ "$(cat "$DIR/joined" 2>/dev/null)" = "$INSTANCE" ]; then
    say "$INSTANCE has its agent already"
    exit 0
  fi
  say "$INSTANCE of pool $POOL, launch $LAUNCH"
  printf '%s' "$MASTER_CERT" >"$DIR/master.pem"
  {
    printf '%s\n' silent show-error 'noproxy = "*"' 'connect-timeout = 10' 'max-time = 600'
    printf 'header = "Authorization: Bearer %s"\n' "$TOKEN"
    [ -z "$MASTER_CERT" ] || printf 'cacert = "%s"\n' "$DIR/master.pem"
    [ -z "$CONNECT_TO" ] || printf 'connect-to = "%s"\n' "$CONNECT_TO"
  } >"$DIR/master.curl"
  printf '%s\n' "$TOKEN" >"$DIR/token"
  printf 'user data runs' | tell stub
  if [ "$(cat "$DIR/files.of" 2>/dev/null)" != "$INSTANCE" ]; then
    rm -rf "$DIR/files" "$DIR"/*.done
    mkdir "$DIR/files"
    download "?instance=$INSTANCE" "$DIR/files.tar"
    tar -xf "$DIR/files.tar" -C "$DIR/files" || fail "what the master sent is no archive"
    rm "$DIR/files.tar"
    echo "$INSTANCE" >"$DIR/files.of"
  fi
  . "$DIR/files/boot.sh"
}

main
