package forwardclient

import (
	"strings"

	"github.com/tinylib/msgp/msgp"
)

// Kubernetes makes records as Fluent Bit sends them from a node: about 450 bytes when
// printed as JSON. The id stands in the log line, behind "id=".
func Kubernetes() Generator {
	var tail []byte
	tail = msgp.AppendString(tail, "stream")
	tail = msgp.AppendString(tail, "stdout")
	tail = msgp.AppendString(tail, "kubernetes")
	fields := [][2]string{
		{"pod_name", "checkout-7d9f8b6c5d-x2x9q"},
		{"namespace_name", "shop"},
		{"container_name", "checkout"},
		{"pod_id", "6f0c9a52-4d0e-4f0b-9d6e-2f1f3f1f9b11"},
		{"host", "ip-10-0-17-203.eu-central-1.compute.internal"},
	}
	tail = msgp.AppendMapHeader(tail, uint32(len(fields)+1))
	for _, f := range fields {
		tail = msgp.AppendString(msgp.AppendString(tail, f[0]), f[1])
	}
	tail = msgp.AppendString(tail, "labels")
	tail = msgp.AppendMapHeader(tail, 2)
	tail = msgp.AppendString(msgp.AppendString(tail, "app"), "checkout")
	tail = msgp.AppendString(msgp.AppendString(tail, "pod-template-hash"), "7d9f8b6c5d")
	const before, after = `level=info id=`, ` msg="order accepted" path="/api/v1/orders" status=201 took=12.7ms trace=4bf92f3577b34da6a3ce929d0e0e4736 user="José"`
	return func(dst []byte, id uint64) ([]byte, int) {
		dst = msgp.AppendMapHeader(dst, 3)
		dst = msgp.AppendString(dst, "log")
		return appendLine(dst, id, before, after, tail)
	}
}

// Docker makes records as Docker's fluentd driver sends them, with a line of size bytes,
// at least 16. The id stands at the start of the line, behind "id=".
func Docker(size int) Generator {
	var head []byte
	head = msgp.AppendMapHeader(head, 4)
	head = msgp.AppendString(msgp.AppendString(head, "container_id"), strings.Repeat("8f3a", 16))
	head = msgp.AppendString(msgp.AppendString(head, "container_name"), "/shop_checkout_1")
	head = msgp.AppendString(msgp.AppendString(head, "source"), "stdout")
	head = msgp.AppendString(head, "log")
	const before = "id="
	fill := strings.Repeat(" the quick brown fox jumps over the lazy dog", size/44+1)
	after := fill[:max(0, size-len(before)-IDLen)]
	return func(dst []byte, id uint64) ([]byte, int) {
		dst = append(dst, head...)
		return appendLine(dst, id, before, after, nil)
	}
}

// appendLine appends a string of before, the id and after, then tail.
func appendLine(dst []byte, id uint64, before, after string, tail []byte) ([]byte, int) {
	dst = appendStrHeader(dst, len(before)+IDLen+len(after))
	dst = append(dst, before...)
	at := len(dst)
	dst = append(dst, "000000000000"...)
	putDecimal(dst[at:], id)
	dst = append(dst, after...)
	return append(dst, tail...), at
}

func appendStrHeader(b []byte, n int) []byte {
	switch {
	case n < 32:
		return append(b, 0xa0|byte(n))
	case n < 256:
		return append(b, 0xd9, byte(n))
	case n < 65536:
		return append(b, 0xda, byte(n>>8), byte(n))
	}
	return append(b, 0xdb, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}
