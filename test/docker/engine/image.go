package engine

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Image is the name of the image that ImportWriter makes.
const Image = "writer"

// BuildWriter builds the program test/docker/writer for containers and gives its path in dir.
func BuildWriter(ctx context.Context, dir string) (string, error) {
	out := filepath.Join(dir, "writer")
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", out, "weir/test/docker/writer")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, msg)
	}
	return out, nil
}

// ImportWriter makes the image Image, which holds nothing but that program.
func (e *Engine) ImportWriter(ctx context.Context, program string) error {
	body, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "writer", Mode: 0o755, Size: int64(len(body)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	if _, err := w.Write(body); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	cmd := e.Client(ctx, "import", "--change", `ENTRYPOINT ["/writer"]`, "-", Image)
	cmd.Stdin = &b
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("docker import: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
