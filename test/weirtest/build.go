package weirtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// binaryVar names the program under test, given from outside or by Main.
const binaryVar = "WEIR_BINARY"

// Main builds weir, runs the tests of a package and cleans up. A TestMain calls it. prepare
// does what else has to be done once; dir is removed at the end. m is a *testing.M, or has
// something to do after it.
func Main(m interface{ Run() int }, prepare ...func(dir string) error) {
	dir, err := os.MkdirTemp("", "weir-test-")
	if err == nil {
		var binary string
		if binary, err = build(dir); err == nil {
			err = os.Setenv(binaryVar, binary)
		}
	}
	for _, p := range prepare {
		if err == nil {
			err = p(dir)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "weirtest:", err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build gives the path of the binary to test.
func build(dir string) (string, error) {
	if b := os.Getenv(binaryVar); b != "" {
		return filepath.Abs(b)
	}
	out := filepath.Join(dir, "weir")
	flags := strings.Fields(os.Getenv("WEIR_BUILD_FLAGS"))
	cmd := exec.Command("go", slices.Concat([]string{"build", "-o", out}, flags, []string{"weir/cmd/weir"})...)
	if len(flags) == 0 {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // static, as it is released and as the Docker plugin needs it
	}
	if msg, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, msg)
	}
	return out, nil
}

// Binary is the path of the program under test.
func Binary() string { return os.Getenv(binaryVar) }
