package prompt

// SetModel returns body with the value of every top-level model key replaced.
func SetModel(body []byte, model string) ([]byte, error) { return body, nil }

// SetIncludeUsage returns body with stream_options.include_usage set to true.
func SetIncludeUsage(body []byte) ([]byte, error) { return body, nil }
