// Express with its default settings: every route answers which one it is.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import express from "express";

const [routesFile, port] = process.argv.slice(2);
const app = express();

// `:`, `*`, `{`, `(` and kin have a meaning in a path of Express 5.
const literal = (text) => text.replace(/[{}()[\]+?!:*\\]/g, "\\$&");

for (const { name, segments, tail } of JSON.parse(readFileSync(routesFile, "utf8"))) {
  const path = segments
    .map(({ prefix, parameter, suffix }) => {
      const capture = parameter === null ? "" : `:${parameter}`;
      return `/${literal(prefix)}${capture}${literal(suffix)}`;
    })
    .join("");
  app.all(tail ? `${path}{/*rest}` : path || "/", (request, response) => {
    response.set("X-Route", name).send("");
  });
}

const { version } = createRequire(import.meta.url)("express/package.json");
app.listen(Number(port), "127.0.0.1", () => console.log(`ready Express ${version}, Node.js ${process.versions.node}`));
