// Lists the routes of an Express 4 or 5 application as JSON Lines.
//
//   node express.cjs ./app.js > routes.jsonl
//
// The module must export the application. Express keeps no mount paths, so `use` is watched while it is loaded.
'use strict';

const { createRequire } = require('node:module');
const { METHODS } = require('node:http');
const path = require('node:path');

const file = path.resolve(process.argv[2]);
const express = createRequire(file)('express');

const mounted = new WeakMap(); // layer -> [path]
const applications = new WeakMap(); // layer -> mounted application

const isHandler = (value) => typeof value === 'function' || (Array.isArray(value) && isHandler(value[0]));
// Express 4 makes `_router` when it is first needed, and its `router` throws.
const stackOf = (owner) => owner.stack ?? (owner.lazyrouter ? owner._router : owner.router)?.stack ?? [];

function watch(owner) {
  const use = owner.use;
  owner.use = function (...given) {
    const before = new Set(stackOf(this));
    const result = use.apply(this, given);
    const at = isHandler(given[0]) ? ['/'] : [given[0]].flat();
    const handlers = (isHandler(given[0]) ? given : given.slice(1)).flat(Infinity);
    stackOf(this)
      .filter((layer) => !before.has(layer) && layer.name !== 'query' && layer.name !== 'expressInit')
      .forEach((layer, index) => {
        mounted.set(layer, at);
        if (handlers[index]?.handle && handlers[index].set) applications.set(layer, handlers[index]);
      });
    return result;
  };
}
watch(express.Router.prototype?.use ? express.Router.prototype : express.Router);
watch(express.application);

const seen = new Set();
function write(method, path) {
  const line = JSON.stringify({ method, path });
  if (!seen.has(line)) process.stdout.write(line + '\n');
  seen.add(line);
}

// An expression is written so that the import refuses it: no template says it.
const text = (path) => (path instanceof RegExp ? `expression:${path}` : path);
const join = (base, path) => (base.replace(/\/$/, '') + text(path)) || '/';

function walk(stack, base) {
  for (const layer of stack) {
    if (layer.route) {
      const { methods } = layer.route;
      const all = methods._all || METHODS.every((method) => methods[method.toLowerCase()]);
      for (const path of [layer.route.path].flat()) {
        const names = all ? ['*'] : Object.keys(methods).map((method) => method.toUpperCase());
        for (const name of names) write(name, join(base, path));
      }
      continue;
    }
    for (const at of mounted.get(layer) ?? ['/']) {
      const below = join(base, at).replace(/\/$/, '');
      if (applications.has(layer)) walk(stackOf(applications.get(layer)), below);
      else if (layer.handle?.stack) walk(layer.handle.stack, below);
      else if (layer.name === 'serveStatic') {
        write('*', below || '/');
        write('*', below + '/*');
      }
    }
  }
}

const loaded = require(file);
walk(stackOf(loaded.default ?? loaded.app ?? loaded), '');
