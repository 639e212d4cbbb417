package app

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// Bounds of an @include over the network: a start must not hang on it.
const (
	fetchTime = 10 * time.Second
	fetchSize = 4 << 20
)

// Fetch reads a piece of configuration over HTTP, for Env.Fetch.
func Fetch(url string) ([]byte, error) {
	c := &http.Client{Timeout: fetchTime}
	resp, err := c.Get(url)
	if err != nil {
		return nil, err // it names the address
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answers %s", resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, fetchSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if len(data) > fetchSize {
		return nil, fmt.Errorf("the answer is longer than %d bytes", fetchSize)
	}
	return data, nil
}
