# What the sessions share. A session is run on the embedded server and on real Kubernetes, and what it prints must be
# the same: every step prints its command, its output (both streams) and its exit code. KUBECONFIG says which server.
set -u
cd "$(mktemp -d)" || exit 1
trap 'rm -rf "$PWD"' EXIT
export KUBECTL_EXTERNAL_DIFF='diff -U0 --label live --label merged' HOME="$PWD"

# Runs a command and shows it with its outcome.
step() {
  echo "### $*"
  timeout 60 "$@" 2>&1
  echo "--- exit $?"
}
k() { step kubectl "$@"; }
# The same for a command line that needs a shell.
sh_() {
  echo "### $1"
  timeout 60 bash -c "$1" 2>&1
  echo "--- exit $?"
}
