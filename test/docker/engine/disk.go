package engine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Disk is a disk with a file system of its own, in a file, which can be cut off from its
// power: what was not on it by then is lost.
type Disk struct {
	image, device string
}

// NewDisk makes an ext4 file system of so many bytes in a file in dir. It fails where there
// are no loop devices.
func NewDisk(ctx context.Context, dir string, size int64) (*Disk, error) {
	d := &Disk{image: filepath.Join(dir, "disk")}
	f, err := os.OpenFile(d.image, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	err = f.Truncate(size)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-F", d.image}, {"losetup", "--find", "--show", d.image}} {
		out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
		}
		d.device = strings.TrimSpace(string(out))
	}
	return d, nil
}

// Mount mounts the disk at a directory for the engine alone. After Cut it first waits until
// the file system of before is gone. dir and the engine's directory for data must be there,
// and dockerd must not run.
func (d *Disk) Mount(ctx context.Context, e *Engine, dir string) error {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		f, err := os.OpenFile(d.device, os.O_RDWR|unix.O_EXCL, 0)
		if err == nil {
			_ = f.Close()
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("the file system is still in use: %w", err)
		}
	}
	// A dockerd whose directory is no shared mount binds it once more, over what is mounted
	// below it.
	data := filepath.Join(e.Dir, "data")
	for _, args := range [][]string{{"--bind", data, data}, {"--make-shared", data}, {"-t", "ext4", d.device, dir}} {
		if _, err := e.Exec(ctx, "mount", args...); err != nil {
			return err
		}
	}
	return nil
}

// shutdown is the request EXT4_IOC_SHUTDOWN, and its argument that neither data nor the
// journal is written out.
const (
	shutdown = 0x8004587d
	noFlush  = 2
)

// Cut takes the power from the disk that the engine has mounted at dir: what was not written
// out by now never will be. All processes of the engine are stopped before, for Crash to kill:
// with the power they end in the same moment, and do nothing on a disk that is no more.
func (d *Disk) Cut(e *Engine, dir string) error {
	if err := e.freeze(); err != nil {
		return err
	}
	f, err := os.Open(e.Path(dir))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), shutdown, noFlush); err != nil {
		return fmt.Errorf("cut %s off: %w", dir, err)
	}
	return nil
}

// Close gives the device back. The engine must have ended, or never have had it.
func (d *Disk) Close() {
	if d.device != "" {
		_ = exec.Command("losetup", "-d", d.device).Run()
	}
	_ = os.Remove(d.image)
}
