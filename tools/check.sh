#!/usr/bin/env bash
# The checks of this repository, ending at the first failure:
#
#   tools/check.sh all|lint|unit|race|fuzz|e2e …
#
# "all" runs them in two rows side by side, since some compute and others mostly wait: lint
# and fuzz, at the lowest priority, beside unit, race and e2e. What a step prints is in
# build/STEP.log and is shown in the order above, a failure at once.
#
# On Debian as root it installs what some checks need beyond Go. A check that cannot run
# here is left out, and the last lines say which and why.
set -euo pipefail
cd "$(dirname "$0")/.."

FUZZTIME=${FUZZTIME:-1s}
steps=(prepare lint unit race fuzz e2e)
started=$SECONDS

# Without C everything is compiled once for all steps but the race detector, and what the
# tests run is the static binary that is released.
export CGO_ENABLED=0

say() { printf '\n== %s\n' "$*"; }

# leave_out STEP WHAT WHY
leave_out() { printf '%s: %s\n' "$2" "$3" >>"build/$1.skipped"; }

have() { command -v "$1" >/dev/null 2>&1; }

# install PACKAGE… installs Debian packages if it may.
install() {
  have apt-get && [ "$(id -u)" = 0 ] || return 0
  apt-get update -qq || return 0
  local p
  for p; do
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$p" || echo "not installed: $p"
  done
}

prepare() {
  have go || { echo "weir needs Go, see go.mod for the version: https://go.dev/dl/"; exit 1; }
  go version
  local missing=()
  have gcc || missing+=(gcc libc6-dev)
  have aws || missing+=(awscli)
  have dockerd || missing+=(docker.io)
  [ ${#missing[@]} = 0 ] || install "${missing[@]}" >/dev/null 2>&1
  : >build/prepare.skipped
  have aws || leave_out prepare "AWS CLI against the local endpoint" "aws is not on the PATH (apt-get install awscli)"
  have moto_server || leave_out prepare "comparison with moto" "moto_server is not on the PATH (pip install 'moto[server]')"
  have dockerd || leave_out prepare "the Docker driver on a real engine" "dockerd is not on the PATH (as root: apt-get install docker.io)"
  have fluent-bit || leave_out prepare "live Fluent Bit as a client" "fluent-bit is not on the PATH; recorded streams of its forward output are used"
}

lint() {
  local bad
  bad=$(gofmt -l cmd internal test tools)
  if [ -n "$bad" ]; then
    echo "gofmt: not formatted, run gofmt -w on:"
    echo "$bad"
    exit 1
  fi
  echo "gofmt ok"
  go vet ./...
  echo "go vet ok"
  go tool -modfile=tools/go.mod staticcheck ./...
  echo "staticcheck ok"
}

# tests STEP ARGUMENT… runs go test. More packages and tests than cores: some mostly wait.
# lint vets, once for all steps.
tests() {
  local step=$1
  shift
  go test -json -vet=off -p 4 "$@" | CGO_ENABLED=0 go run ./test/testlog -skipped "build/$step.skipped"
}

unit() {
  tests unit -parallel 8 $(go list ./... | grep -v '/test/')
}

race() {
  if ! have gcc; then
    leave_out race "race detector" "it needs a C compiler (apt-get install gcc libc6-dev)"
    return
  fi
  # Only packages in which goroutines meet: pure ones have nothing to race. With -short
  # property tests try a fifth of the cases.
  local packages
  packages=$(go list -f '{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./cmd/... ./internal/... |
    awk '/ (sync|sync\/atomic|testing\/synctest|go.uber.org\/goleak)( |$)/ { print $1 }')
  CGO_ENABLED=1 tests race -parallel 8 -race -short $packages
}

# gateway builds the S3 server that test/s3 runs against, if it can be had.
gateway() {
  local module
  module=$(sed -n 's/^const gatewayModule = "\(.*\)"$/\1/p' test/s3/gateway_test.go)
  WEIR_VERSITYGW=$PWD/build/${module##*/}
  [ -x "$WEIR_VERSITYGW" ] && return
  (cd build && GOBIN=$PWD/gateway GOFLAGS= go install -ldflags '-s -w' "$module" && mv "gateway/$(basename "${module%@*}")" "$WEIR_VERSITYGW") >build/gateway.log 2>&1 || unset WEIR_VERSITYGW
}

# fuzz_once PACKAGE TARGET
fuzz_once() {
  (cd "$1" && "$OLDPWD/build/fuzz.test" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$FUZZTIME" -test.fuzzminimizetime 5s \
    -test.fuzzcachedir "$cache/${1#./}") </dev/null >build/target.log 2>&1
}

fuzz() {
  local pkg target cache
  cache=$(go env GOCACHE)/fuzz/weir
  while read -r pkg; do
    go test -c -vet=off -fuzz=. -ldflags '-s -w' -o build/fuzz.test "$pkg"
    for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$pkg"/*_test.go | sed 's/^func //'); do
      fuzz_once "$pkg" "$target" && continue
      # When time runs out while a worker is busy, Go's fuzzer can end with this alone, without
      # an input that fails. That is no finding: once more.
      if grep -q 'context deadline exceeded' build/target.log && ! grep -q 'Failing input' build/target.log && fuzz_once "$pkg" "$target"; then
        continue
      fi
      printf '%s %s\n' "${pkg#./}" "$target"
      cat build/target.log
      exit 1
    done
    printf '%-32s ok\n' "${pkg#./}"
  done < <(grep -rlE '^func Fuzz' --include='*_test.go' ./cmd ./internal | xargs -rn1 dirname | sort -u)
}

e2e() {
  go build -o build/weir-e2e ./cmd/weir
  gateway
  WEIR_BINARY=$PWD/build/weir-e2e WEIR_VERSITYGW=${WEIR_VERSITYGW:-} tests e2e -count=1 ./test/...
}

# row STEP… runs steps one after the other, each with its log, until one fails.
row() {
  local step code began
  for step; do
    case $step in race | e2e) until [ -e build/prepare.code ]; do sleep 0.2; done ;; esac
    code=0 began=$SECONDS
    tools/check.sh step "$step" >"build/$step.log" 2>&1 </dev/null || code=$?
    echo $((SECONDS - began)) >"build/$step.seconds"
    echo "$code" >"build/$step.code"
    [ "$code" = 0 ] || return
  done
}

# low is row at the lowest priority: what the others leave of the processor.
low() {
  renice -n 19 "$BASHPID" >/dev/null 2>&1 || true
  row "$@"
}

# show STEP prints the log of a step that has ended, and ends everything if it has failed.
show() {
  say "$1: $(<"build/$1.seconds") s"
  cat "build/$1.log"
  [ "$(<"build/$1.code")" = 0 ] && return
  say "FAILED: $1, after $((SECONDS - started)) s (build/$1.log)"
  exit 1
}

all() {
  local step other
  rm -f build/*.code build/*.log build/*.skipped
  trap 'for row in $(jobs -rp); do kill -- "-$row" || true; done' EXIT
  trap 'exit 130' INT TERM
  set -m # each row is a process group, so that it can be ended with all that it has started
  row prepare &
  row unit race e2e &
  low gateway lint fuzz &
  set +m
  for step in "${steps[@]}"; do
    until [ -e "build/$step.code" ]; do
      for other in "${steps[@]}"; do
        if [ -e "build/$other.code" ] && [ "$(<"build/$other.code")" != 0 ]; then show "$other"; fi
      done
      if [ -z "$(jobs -rp)" ] && [ ! -e "build/$step.code" ]; then
        say "FAILED: $step did not end by itself"
        exit 1
      fi
      sleep 0.2
    done
    show "$step"
  done
}

# summary STEP…
summary() {
  say "done in $((SECONDS - started)) s"
  local step
  for step; do
    [ ! -s "build/$step.skipped" ] || sed "s/^/  left out of $step: /" "build/$step.skipped"
  done
}

mkdir -p build
if [ "${1:-}" = step ]; then
  "$2"
  exit
fi
done=()
for step in "${@:-all}"; do
  case $step in
    all) all; done+=("${steps[@]}") ;;
    lint | unit | race | fuzz | e2e)
      if [ "$step" != lint ]; then prepare; fi
      say "$step"
      "$step"
      done+=("$step")
      ;;
    *) echo "usage: tools/check.sh all|lint|unit|race|fuzz|e2e …" >&2; exit 2 ;;
  esac
done
summary "${done[@]}"
