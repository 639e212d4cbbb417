package engine

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// Registry serves one plugin, for `docker plugin install` and `docker plugin upgrade`, which
// take a plugin from nowhere else. It knows just what these ask for.
type Registry struct {
	Ref string // the reference of the plugin

	server *http.Server
	blobs  map[string][]byte // by digest
	types  map[string]string // media type of a blob
	latest string            // digest of the manifest
}

const (
	manifestType = "application/vnd.docker.distribution.manifest.v2+json"
	configType   = "application/vnd.docker.plugin.v1+json"
	layerType    = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

// descriptor refers to a blob.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Size      int    `json:"size"`
	Digest    string `json:"digest"`
}

// ServePlugin serves the plugin in dir (config.json and rootfs) at a free port of the loopback.
func ServePlugin(dir string) (*Registry, error) {
	r := &Registry{blobs: map[string][]byte{}, types: map[string]string{}}
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, err
	}
	layer, plain, err := pack(filepath.Join(dir, "rootfs"))
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", dir, err)
	}
	members := map[string]any{}
	if err := json.Unmarshal(config, &members); err != nil {
		return nil, fmt.Errorf("%s/config.json: %w", dir, err)
	}
	members["rootfs"] = map[string]any{"type": "layers", "diff_ids": []string{digest(plain)}}
	if config, err = json.Marshal(members); err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": manifestType,
		"config": r.add(configType, config), "layers": []descriptor{r.add(layerType, layer)}})
	if err != nil {
		return nil, err
	}
	r.latest = r.add(manifestType, manifest).Digest
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r.Ref = l.Addr().String() + "/weir:next"
	r.server = &http.Server{Handler: r}
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

// Close ends the service.
func (r *Registry) Close() { _ = r.server.Close() }

func digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

func (r *Registry) add(kind string, b []byte) descriptor {
	d := descriptor{MediaType: kind, Size: len(b), Digest: digest(b)}
	r.blobs[d.Digest], r.types[d.Digest] = b, kind
	return d
}

// ServeHTTP answers GET and HEAD of /v2/, manifests and blobs.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	what := q.URL.Path[strings.LastIndexByte(q.URL.Path, '/')+1:]
	switch {
	case q.URL.Path == "/v2/":
		_, _ = io.WriteString(w, "{}")
		return
	case strings.Contains(q.URL.Path, "/manifests/") && !strings.HasPrefix(what, "sha256:"):
		what = r.latest
	}
	b, ok := r.blobs[what]
	if !ok {
		http.NotFound(w, q)
		return
	}
	w.Header().Set("Content-Type", r.types[what])
	w.Header().Set("Docker-Content-Digest", what)
	w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	if q.Method == http.MethodGet {
		_, _ = w.Write(b)
	}
}

// pack makes a layer of a directory, compressed and not.
func pack(root string) (packed, plain []byte, err error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if target, err = os.Readlink(path); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(info, target)
		if err != nil {
			return err
		}
		if h.Name, err = filepath.Rel(root, path); err != nil {
			return err
		}
		h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
		if err := w.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = w.Write(body)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if err := w.Close(); err != nil {
		return nil, nil, err
	}
	var z bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&z, gzip.BestSpeed)
	if _, err := zip.Write(b.Bytes()); err != nil {
		return nil, nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, nil, err
	}
	return z.Bytes(), b.Bytes(), nil
}
