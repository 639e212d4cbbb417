// Package player plays the part of a Docker Engine towards a log plugin: it makes pipes,
// speaks the plugin protocol and writes the frames that an engine writes. So tests can have
// frames that no engine writes at will, with old times for example, and benchmarks can write
// them faster than an engine does.
package player

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Engine is the player. Its methods may be used from any goroutine.
type Engine struct {
	Dir    string // for pipes
	Seen   string // Dir as the plugin sees it; "": as we do
	client http.Client
}

// New makes a player for the plugin that listens at a unix socket.
func New(socket, dir string) *Engine {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &Engine{Dir: dir, client: http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: 30 * time.Second}}
}

// Call makes a call of the protocol. The answer's Err, if any, is the error.
func (e *Engine) Call(path string, in, out any) error {
	var body io.Reader = http.NoBody
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequest(http.MethodPost, "http://plugin"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/vnd.docker.plugins.v1.2+json")
	resp, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var said struct{ Err string }
	if err := json.Unmarshal(text, &said); err != nil {
		return fmt.Errorf("%s: %s: %q is no JSON", path, resp.Status, text)
	}
	if said.Err != "" {
		return errors.New(said.Err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, resp.Status, text)
	}
	if out != nil {
		return json.Unmarshal(text, out)
	}
	return nil
}

// Session is the logging of one container from its start to its end. One goroutine may write
// while others do nothing with it.
type Session struct {
	File string // of the pipe
	ID   string // of the container
	e    *Engine
	seen string // File as the plugin sees it
	pipe *os.File
}

// ContainerID makes up the id of a container.
func ContainerID() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// Start starts the logging of a container with these options.
func (e *Engine) Start(id, name string, config map[string]string) (*Session, error) {
	file := ContainerID()
	s := &Session{File: filepath.Join(e.Dir, file), seen: filepath.Join(cmp.Or(e.Seen, e.Dir), file), ID: id, e: e}
	if err := syscall.Mkfifo(s.File, 0o700); err != nil {
		return nil, err
	}
	var err error
	// As an engine does it: open for both, so that writing never fails for want of a reader.
	if s.pipe, err = os.OpenFile(s.File, os.O_RDWR|syscall.O_NONBLOCK, 0o700); err != nil {
		return nil, err
	}
	err = e.Call("/LogDriver.StartLogging", map[string]any{"File": s.seen, "Info": map[string]any{
		"Config": config, "ContainerID": id, "ContainerName": "/" + name, "ContainerEntrypoint": "/writer", "ContainerArgs": []string{"lines"},
		"ContainerImageID": "sha256:" + ContainerID(), "ContainerImageName": "writer:latest", "ContainerCreated": time.Now().UTC(),
		"ContainerEnv": []string{"PATH=/"}, "ContainerLabels": map[string]string{"service": "bench"}, "LogPath": "", "DaemonName": "docker",
	}}, nil)
	if err != nil {
		_ = s.pipe.Close()
		return nil, err
	}
	return s, nil
}

// Write writes frames. It waits while the pipe is full.
func (s *Session) Write(frames []byte) error {
	_, err := s.pipe.Write(frames)
	return err
}

// Full bounds how long a Write may wait; the zero time ends the bound.
func (s *Session) Full(deadline time.Time) error { return s.pipe.SetWriteDeadline(deadline) }

// Stop ends the logging in order, as when a container has ended.
func (s *Session) Stop() error {
	err := s.e.Call("/LogDriver.StopLogging", map[string]string{"File": s.seen}, nil)
	_ = s.pipe.Close() // only now does the plugin see the end
	_ = os.Remove(s.File)
	return err
}

// Abandon closes the pipe without a word, as an engine does that is killed or restarted with
// live-restore. The pipe's file stays.
func (s *Session) Abandon() { _ = s.pipe.Close() }

// Part says which part of a line a frame is.
type Part struct {
	ID      string
	Ordinal int // from 1
	Last    bool
}

// Sources of a frame.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// AppendFrame appends the frame of a line, or of a part of one when part is not nil.
func AppendFrame(dst []byte, source string, at time.Time, line []byte, part *Part) []byte {
	from := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = protowire.AppendString(protowire.AppendTag(dst, 1, protowire.BytesType), source)
	dst = protowire.AppendVarint(protowire.AppendTag(dst, 2, protowire.VarintType), uint64(at.UnixNano()))
	dst = protowire.AppendBytes(protowire.AppendTag(dst, 3, protowire.BytesType), line)
	if part != nil {
		dst = protowire.AppendVarint(protowire.AppendTag(dst, 4, protowire.VarintType), 1)
		var meta []byte
		if part.Last {
			meta = protowire.AppendVarint(protowire.AppendTag(meta, 1, protowire.VarintType), 1)
		}
		meta = protowire.AppendString(protowire.AppendTag(meta, 2, protowire.BytesType), part.ID)
		meta = protowire.AppendVarint(protowire.AppendTag(meta, 3, protowire.VarintType), uint64(part.Ordinal))
		dst = protowire.AppendBytes(protowire.AppendTag(dst, 5, protowire.BytesType), meta)
	}
	binary.BigEndian.PutUint32(dst[from:], uint32(len(dst)-from-4))
	return dst
}
