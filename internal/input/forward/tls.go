package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
)

// startTLS does the TLS handshake.
func (c *conn) startTLS(work context.Context) error {
	if c.set.tls == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(work, handshakeTimeout)
	defer cancel()
	s := tls.Server(c.nc, c.set.tls)
	err := s.HandshakeContext(ctx)
	if err == nil {
		c.nc = s
		return nil
	}
	if c.in.stopping.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		return errStop
	}
	var record tls.RecordHeaderError
	if errors.As(err, &record) {
		if looksLikeHTTP(record.RecordHeader[:]) == yes {
			return fmt.Errorf("this is HTTP on a TLS port, not the forward protocol: %w", err)
		}
		return fmt.Errorf("the client does not speak TLS on this TLS port: switch TLS on in the client, or use <transport tcp> here: %w", err)
	}
	return fmt.Errorf("TLS handshake: %w", err)
}
