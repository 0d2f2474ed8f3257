package prompt

// MultipartModel returns the model and stream fields of a multipart form.
func MultipartModel(contentType string, body []byte) (model string, stream bool, err error) {
	return "", false, nil
}
