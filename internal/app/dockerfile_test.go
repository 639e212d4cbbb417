package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A process that is killed while it makes a container's directory leaves nothing to report.
func TestDockerDirectoryHalfMade(t *testing.T) {
	dir := t.TempDir()
	half := filepath.Join(dir, dockerContainers, strings.Repeat("a", 64))
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, containerFileName+".tmp"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := openDocker(t, DockerOptions{Spool: dir})
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if strings.Contains(d.log.String(), "left alone") {
		t.Error(d.log.String())
	}
}

func TestDockerSpoolRemovedTwice(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := removeSpool(dir); err != nil {
			t.Error(err)
		}
	}
}
