package frame

func head(b []byte) State             { return More }
func begins(b []byte, size int) bool  { return true }
func (e *Entry) decode(b []byte) bool { return true }
