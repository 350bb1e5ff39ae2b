# May run at every boot of the machine, and does only what is left to do. What tests set: ROOT, the root of all paths.
set -eu
ROOT=${ROOT-}
HOME_DIR=$ROOT/opt/windlass
DATA=$ROOT/var/lib/windlass
ETC=$ROOT/etc/windlass

say() { echo "windlass: $*"; }
fail() { say "$*"; exit 1; }

# The disk with the data outlives this machine: it is formatted only if nothing at all is on it.
mount_data() {
  mkdir -p "$DATA"
  ! mountpoint -q "$DATA" || return 0
  tries=0
  until [ -e "$DATA_DISK" ]; do
    tries=$((tries + 1))
    [ "$tries" -le 300 ] || fail "no disk $DATA_DISK after 300 s"
    sleep 1
  done
  found=0
  blkid -p "$DATA_DISK" >/dev/null || found=$?
  case $found in
    0) ;;
    2) mkfs.ext4 -q -L windlass-data "$DATA_DISK" ;;
    *) fail "blkid cannot tell what is on $DATA_DISK: it is left as it is" ;;
  esac
  grep -q LABEL=windlass-data "$ROOT/etc/fstab" ||
    echo 'LABEL=windlass-data /var/lib/windlass ext4 defaults,nofail 0 2' >>"$ROOT/etc/fstab"
  mount "$DATA_DISK" "$DATA"
}

install_packages() {
  export DEBIAN_FRONTEND=noninteractive
  wanted=python3-venv
  if [ "$DATABASE" = local ]; then
    # Its cluster is made below, on the disk that stays.
    mkdir -p "$ROOT/etc/postgresql-common"
    echo 'create_main_cluster = false' >"$ROOT/etc/postgresql-common/createcluster.conf"
    wanted="$wanted postgresql"
  fi
  dpkg -s $wanted >/dev/null 2>&1 || { apt-get update -q; apt-get install -qy $wanted; }
}

local_database() {
  [ "$DATABASE" = local ] || return 0
  version=$(ls "$ROOT/usr/lib/postgresql" | sort -n | tail -n 1)
  pg_lsclusters -h | grep -q "^$version *main " ||
    pg_createcluster -d "$DATA/postgresql" "$version" main
  pg_ctlcluster "$version" main start 2>/dev/null || pg_ctlcluster "$version" main status
  as_postgres() { runuser -u postgres -- "$@"; }
  as_postgres psql -tAc "SELECT 1 FROM pg_roles WHERE rolname = 'windlass'" | grep -q 1 || as_postgres createuser windlass
  as_postgres psql -tAc "SELECT 1 FROM pg_database WHERE datname = 'determined'" | grep -q 1 ||
    as_postgres createdb -O windlass determined
}

install_master() {
  id windlass >/dev/null 2>&1 || useradd --system --home-dir "$DATA" --shell /usr/sbin/nologin windlass
  if [ "$(cat "$HOME_DIR/installed" 2>/dev/null)" != "$PACKAGE" ]; then
    python3 -m venv "$HOME_DIR"
    "$HOME_DIR/bin/pip" install -q --disable-pip-version-check "$PACKAGE"
    echo "$PACKAGE" >"$HOME_DIR/installed"
  fi
}

# Passwords come from the cloud's store of secrets, which only this machine's role may read.
configure() {
  mkdir -p "$ETC" "$DATA/master"
  chmod 750 "$ETC"
  config >"$ETC/master.template.yaml"
  "$HOME_DIR/bin/python" -I -m windlass.deploy.cloud.on_master \
    --cloud "$CLOUD" --secret "$SECRET" --template "$ETC/master.template.yaml" --folder "$ETC"
  chown -R root:windlass "$ETC"
  chown windlass:windlass "$DATA/master"
  address=$(hostname -I | cut -d' ' -f1)
  cat >"$ROOT/etc/systemd/system/windlass-master.service" <<UNIT
[Unit]
Description=Windlass master
Wants=network-online.target
After=network-online.target postgresql.service
RequiresMountsFor=/var/lib/windlass

[Service]
Type=notify
User=windlass
ExecStart=/opt/windlass/bin/windlass master run -c /etc/windlass/master.yaml --data-dir /var/lib/windlass/master --url $URL_SCHEME://$address:$PORT
Restart=always
RestartSec=5
TimeoutStopSec=60
NoNewPrivileges=yes
ProtectSystem=full
ProtectHome=yes

[Install]
WantedBy=multi-user.target
UNIT
  systemctl daemon-reload
  systemctl enable windlass-master
  systemctl restart windlass-master
}

mount_data
install_packages
local_database
install_master
configure
say "the master runs on port $PORT"
[ "$URL_SCHEME" = http ] ||
  runuser -u windlass -- "$HOME_DIR/bin/windlass" master certificate -c "$ETC/master.yaml" --data-dir "$DATA/master" || true
