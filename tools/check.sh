#!/usr/bin/env bash
# The checks of this repository, one step after the other, ending at the first failure:
#
#   tools/check.sh all|lint|unit|race|fuzz|e2e …
#
# On Debian as root it installs what some checks need beyond Go. A check that cannot run
# here is left out, and the last lines say which and why.
set -euo pipefail
cd "$(dirname "$0")/.."

FUZZTIME=${FUZZTIME:-1s}
left_out=()
started=$SECONDS

say() { printf '\n== %s\n' "$*"; }

leave_out() { left_out+=("$1: $2"); }

have() { command -v "$1" >/dev/null 2>&1; }

# install PACKAGE… installs Debian packages if it may, and says whether it could.
updated=
install() {
  have apt-get && [ "$(id -u)" = 0 ] || return 1
  if [ -z "$updated" ]; then
    apt-get update -qq >/dev/null 2>&1 || return 1
    updated=yes
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1
}

prepare() {
  say "prepare"
  have go || { echo "weir needs Go, see go.mod for the version: https://go.dev/dl/"; exit 1; }
  go version
  if ! have aws && ! install awscli; then
    leave_out "AWS CLI against the local endpoint" "aws is not on the PATH (apt-get install awscli)"
  fi
  if ! have moto_server; then
    leave_out "comparison with moto" "moto_server is not on the PATH (pip install 'moto[server]')"
  fi
  if ! have dockerd && ! install docker.io; then
    leave_out "the Docker driver on a real engine" "dockerd is not on the PATH (as root: apt-get install docker.io)"
  fi
  if ! have fluent-bit; then
    leave_out "live Fluent Bit as a client" "fluent-bit is not on the PATH; recorded streams of its forward output are used"
  fi
}

lint() {
  say "gofmt"
  local bad
  bad=$(gofmt -l cmd internal test tools)
  if [ -n "$bad" ]; then
    echo "not formatted, run gofmt -w on:"
    echo "$bad"
    exit 1
  fi
  say "go vet"
  go vet ./...
  say "staticcheck"
  go tool -modfile=tools/go.mod staticcheck ./...
  echo ok
}

unit() {
  say "unit tests"
  go test -p 4 $(go list ./... | grep -v '/test/') # more than cores: some packages mostly wait
}

race() {
  say "race detector"
  if ! have gcc && ! install gcc libc6-dev; then
    leave_out "race detector" "it needs a C compiler (apt-get install gcc libc6-dev)"
    return
  fi
  # Only packages in which goroutines meet: pure ones have nothing to race.
  local packages
  packages=$(go list -f '{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./cmd/... ./internal/... |
    awk '/ (sync|sync\/atomic|testing\/synctest|go.uber.org\/goleak)( |$)/ { print $1 }')
  CGO_ENABLED=1 go test -p 4 -race -short $packages
}

# fuzz_once PACKAGE TARGET
fuzz_once() {
  go test -run '^$' -fuzz "^$2\$" -fuzztime "$FUZZTIME" -fuzzminimizetime 5s "$1" </dev/null >build/fuzz.log 2>&1
}

fuzz() {
  say "fuzz, $FUZZTIME a target"
  local pkg target
  while read -r pkg; do
    for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$pkg"/*_test.go | sed 's/^func //'); do
      printf '%-32s %s\n' "${pkg#./}" "$target"
      fuzz_once "$pkg" "$target" && continue
      # When time runs out while a worker is busy, Go's fuzzer can end with this alone, without
      # an input that fails. That is no finding: once more.
      if grep -q 'context deadline exceeded' build/fuzz.log && ! grep -q 'Failing input' build/fuzz.log && fuzz_once "$pkg" "$target"; then
        continue
      fi
      cat build/fuzz.log
      exit 1
    done
  done < <(grep -rlE '^func Fuzz' --include='*_test.go' ./cmd ./internal | xargs -rn1 dirname | sort -u)
}

e2e() {
  say "end to end"
  # -v, so that a test that leaves itself out can be named at the end.
  local ok=0
  go test -count=1 -v ./test/... >build/e2e.log 2>&1 || ok=$?
  if [ "$ok" != 0 ]; then
    cat build/e2e.log
    exit 1
  fi
  grep -E '^(ok|FAIL|\?) ' build/e2e.log || grep -E '^(ok|FAIL)' build/e2e.log
  skipped build/e2e.log
}

# skipped LOG notes the tests that have left themselves out, those with the same reason together.
skipped() {
  local names reason
  while IFS=$'\t' read -r names reason; do
    leave_out "$names" "$reason (see $1)"
  done < <(awk '
    /^ *[a-z0-9_]+_test\.go:[0-9]+: / { said = $0; sub(/^ *[^ ]+ /, "", said) }
    /^ *--- SKIP: / { name = $3; names[said] = names[said] (names[said] ? ", " : "") name }
    END { for (why in names) printf "%s\t%s\n", names[why], why }' "$1")
}

summary() {
  say "done in $((SECONDS - started)) s"
  if [ ${#left_out[@]} -gt 0 ]; then
    echo "left out:"
    printf '  %s\n' "${left_out[@]}"
  else
    echo "nothing was left out"
  fi
}

mkdir -p build
for step in "${@:-all}"; do
  case $step in
    all) prepare; lint; unit; race; fuzz; e2e ;;
    lint | unit | race | fuzz) "$step" ;;
    e2e) prepare; e2e ;;
    *) echo "usage: tools/check.sh all|lint|unit|race|fuzz|e2e …" >&2; exit 2 ;;
  esac
done
summary
