// A reverse proxy that serves a router below a path, as operators' front ends do.
import { createServer, request } from "node:http";

export function below(path, target) {
  const to = new URL(target);
  const server = createServer((req, res) => {
    if (!req.url.startsWith(`${path}/`)) {
      res.writeHead(404).end();
      return;
    }
    const onward = request({ host: to.hostname, port: to.port, method: req.method, path: req.url.slice(path.length), headers: req.headers }, (answer) => {
      res.writeHead(answer.statusCode, answer.headers);
      answer.pipe(res);
    });
    onward.on("error", () => res.destroy());
    res.on("close", () => onward.destroy());
    req.pipe(onward);
  });
  return new Promise((ready) => server.listen(0, "127.0.0.1", () => ready({ url: `http://127.0.0.1:${server.address().port}${path}/`, close: () => { server.closeAllConnections(); server.close(); } })));
}
