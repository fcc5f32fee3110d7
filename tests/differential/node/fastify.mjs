// Fastify with its default settings: every route answers which one it is.
import { readFileSync } from "node:fs";
import fastify from "fastify";

const [routesFile, port] = process.argv.slice(2);
const app = fastify();

// A colon of a literal is doubled.
const literal = (text) => text.replaceAll(":", "::");

for (const { name, segments, tail } of JSON.parse(readFileSync(routesFile, "utf8"))) {
  const path = segments
    .map(({ prefix, parameter, suffix }) => {
      const capture = parameter === null ? "" : `:${parameter}`;
      return `/${literal(prefix)}${capture}${literal(suffix)}`;
    })
    .join("");
  for (const url of tail ? [path || "/", `${path}/*`] : [path || "/"]) {
    app.all(url, (_request, reply) => reply.header("X-Route", name).send(""));
  }
}

await app.listen({ port: Number(port), host: "127.0.0.1" });
console.log(`ready Fastify ${app.version}, Node.js ${process.versions.node}`);
