// The status page: asks status.json every few seconds, and explain when a path is typed. Text is only ever set as text.
(() => {
  'use strict';
  const PERIOD = 5000;
  const SVG = 'http://www.w3.org/2000/svg';
  const byId = (id) => document.getElementById(id);

  // What the reasons mean, for people; the words themselves are those of readyz.
  const REASONS = {
    starting: 'not probed yet',
    refused: 'connection refused',
    timeout: 'no answer in time',
    tls: 'TLS handshake failed',
    dns: 'no address',
    status: 'answers with errors',
    protocol: 'no valid HTTP',
    stale: 'probes are overdue',
    draining: 'stopping',
  };
  const STATES = { ready: 'Ready', not_ready: 'Not ready', disabled: 'Switched off', never: 'Never forwarded' };

  const element = (name, classes, ...children) => {
    const made = document.createElement(name);
    if (classes) made.className = classes;
    made.append(...children.filter((child) => child !== null));
    return made;
  };
  const drawn = (name, attributes) => {
    const made = document.createElementNS(SVG, name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    return made;
  };
  const stateText = (status, reason) =>
    (STATES[status] || status) + (reason ? ': ' + (REASONS[reason] || reason) : '');
  const number = (value) => {
    const digits = value === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
    return value.toLocaleString('en', { maximumFractionDigits: digits });
  };
  const duration = (seconds) => {
    const units = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
    const first = units.findIndex(([, size]) => seconds >= size);
    if (first < 0) return '0 s';
    const rest = seconds % units[first][1];
    const parts = [Math.floor(seconds / units[first][1]) + ' ' + units[first][0]];
    const next = units[first + 1];
    if (next && rest >= next[1]) parts.push(Math.floor(rest / next[1]) + ' ' + next[0]);
    return parts.join(' ');
  };
  const setText = (node, text) => { if (node.textContent !== text) node.textContent = text; };
  const pairs = (classes, rows) => {
    const list = element('dl', classes);
    rows.filter(([, value]) => value !== null && value !== undefined).forEach(([key, value]) => {
      list.append(element('dt', '', key), element('dd', '', value));
    });
    return list;
  };

  // A chart of requests and errors a second. It is made once and drawn again with each sample.
  class Chart {
    constructor(name, large) {
      this.name = name;
      this.requestsKey = element('span', 'key');
      this.errorsKey = element('span', 'key errors');
      this.top = element('span', 'top');
      this.svg = drawn('svg', { class: 'chart', role: 'img', preserveAspectRatio: 'none', viewBox: '0 0 100 100' });
      this.start = element('span', '');
      this.node = element('div', large ? 'large' : '',
        element('div', 'legend', this.requestsKey, this.errorsKey, this.top), this.svg,
        element('div', 'axis', this.start, element('span', '', 'now')));
      this.node.firstChild.setAttribute('aria-hidden', 'true');
      this.node.lastChild.setAttribute('aria-hidden', 'true');
      this.svg.addEventListener('pointermove', (event) => this.point(event));
      this.svg.addEventListener('pointerleave', () => { this.pointed = null; this.draw(); });
    }

    set(requests, errors, steps, step) {
      Object.assign(this, { requests, errors, steps, step });
      this.draw();
    }

    point(event) {
      const box = this.svg.getBoundingClientRect();
      const at = Math.round((event.clientX - box.left) / box.width * (this.steps - 1));
      const index = at - (this.steps - this.requests.length);
      this.pointed = index >= 0 && index < this.requests.length ? index : null;
      this.draw();
    }

    x(index) { return (this.steps - this.requests.length + index) / (this.steps - 1) * 100; }

    draw() {
      const { requests, errors, steps, step } = this;
      const peak = Math.max(0, ...requests);
      const scale = peak > 0 ? peak : 1;
      const y = (value) => 98 - value / scale * 94;
      const line = (values) => values.map((value, index) => this.x(index).toFixed(2) + ',' + y(value).toFixed(2)).join(' ');
      const fixed = { 'vector-effect': 'non-scaling-stroke' };
      const parts = [
        drawn('line', { class: 'grid', x1: 0, x2: 100, y1: 98, y2: 98, ...fixed }),
        drawn('line', { class: 'grid', x1: 0, x2: 100, y1: 4, y2: 4, ...fixed }),
      ];
      if (requests.length > 1) {
        const area = this.x(0).toFixed(2) + ',98 ' + line(requests) + ' 100,98';
        parts.push(drawn('polygon', { class: 'area', points: area }));
        parts.push(drawn('polyline', { class: 'requests', points: line(requests), ...fixed }));
        if (errors.some((value) => value > 0)) {
          parts.push(drawn('polyline', { class: 'errors', points: line(errors), ...fixed }));
        }
      }
      const at = this.pointed ?? requests.length - 1;
      if (this.pointed !== null && this.pointed !== undefined) {
        const x = this.x(at);
        parts.push(drawn('line', { class: 'guide', x1: x, x2: x, y1: 0, y2: 98, ...fixed }));
      }
      this.svg.replaceChildren(...parts);
      const now = requests.length ? requests[at] : null;
      const failed = requests.length ? errors[at] : null;
      const when = this.pointed === null || this.pointed === undefined ? ''
        : ', ' + duration((requests.length - 1 - at) * step) + ' ago';
      setText(this.requestsKey, now === null ? 'requests' : number(now) + ' requests/s' + when);
      setText(this.errorsKey, failed === null ? 'errors' : number(failed) + ' errors/s');
      setText(this.top, peak > 0 ? 'peak ' + number(peak) + '/s' : '');
      setText(this.start, duration(steps * step) + ' ago');
      const said = now === null ? 'no samples yet'
        : number(requests[requests.length - 1]) + ' requests and ' + number(errors[errors.length - 1])
          + ' errors a second now, at most ' + number(peak) + ' requests a second in the last ' + duration(requests.length * step);
      this.svg.setAttribute('aria-label', this.name + ': ' + said);
    }
  }

  // One family's card. Its parts stay in place while their texts change, so that focus and open lists are kept.
  class Card {
    constructor(name) {
      this.state = element('span', 'state');
      this.number = element('span', 'number');
      this.team = element('p', 'team');
      this.numbers = element('p', 'numbers');
      this.none = element('p', 'none', 'Its paths are answered 404, like those of nobody.');
      this.chart = new Chart(name, false);
      this.summary = element('summary', '');
      this.list = element('ul', '');
      this.details = element('details', '', this.summary, this.list);
      this.node = element('li', 'family',
        element('div', 'head', this.number, element('h3', '', name), this.state),
        this.team, this.none, this.numbers, this.chart.node, this.details);
    }

    set(family, index, status) {
      this.state.className = 'state ' + family.status;
      setText(this.state, stateText(family.status, family.reason));
      setText(this.number, String(index + 1) + '.');
      setText(this.team, family.owner || '');
      this.team.hidden = !family.owner;
      const forwarded = family.inFlight !== undefined;
      this.none.hidden = forwarded;
      this.numbers.hidden = !forwarded;
      this.details.hidden = !family.endpoints || family.endpoints.length === 0;
      if (forwarded) {
        const all = family.endpointsReady + family.endpointsNotReady;
        const numbers = [
          [family.endpointsReady + ' of ' + all, all === 1 ? ' endpoint ready' : ' endpoints ready'],
          [number(family.inFlight), ' in flight'],
        ];
        if (family.waiting) numbers.push([number(family.waiting), ' waiting']);
        if (!family.required) numbers.push(['', 'not required']);
        this.numbers.replaceChildren(...numbers.map(([value, text]) => element('span', '', element('b', '', value), text)));
      }
      this.chart.set(family.requestsPerSecond, family.errorsPerSecond, status.steps, status.stepSeconds);
      if (family.endpoints) {
        setText(this.summary, family.endpoints.length === 1 ? '1 endpoint' : family.endpoints.length + ' endpoints');
        this.list.replaceChildren(...family.endpoints.map((endpoint) => element('li', '',
          element('span', 'mono', endpoint.address),
          element('span', '', number(endpoint.inFlight) + ' in flight'),
          element('span', 'state ' + endpoint.status, REASONS[endpoint.reason] || stateText(endpoint.status)))));
      }
    }
  }

  const cards = new Map();
  const traffic = new Chart('All requests', true);
  byId('traffic').append(traffic.node);

  const sum = (series) => {
    const length = Math.max(0, ...series.map((values) => values.length));
    const total = new Array(length).fill(0);
    series.forEach((values) => values.forEach((value, index) => { total[length - values.length + index] += value; }));
    return total;
  };

  // Texts that stay the same are left alone, so that a digest can be selected and copied.
  const values = new Map();
  const fact = (name, text) => {
    if (!values.has(name)) {
      const value = element('dd', name === 'Contract' ? 'mono' : '');
      values.set(name, value);
      byId('facts').append(element('div', '', element('dt', '', name), value));
    }
    setText(values.get(name), text);
  };
  const facts = (status) => {
    const moment = (text) => new Date(text).toLocaleString();
    fact('Version', status.software);
    fact('Up', duration(status.uptimeSeconds));
    if (status.generation) fact('Configuration', 'no. ' + status.generation.number + ', since ' + moment(status.generation.since));
    if (status.reload) fact('Last reload', status.reload.outcome + ', ' + moment(status.reload.at));
    fact('Contract', status.digest);
  };

  const refusedReload = (reload) => {
    const refused = reload && reload.outcome === 'refused';
    byId('reload').hidden = !refused;
    if (!refused) return;
    byId('faults').replaceChildren(...reload.faults.map((fault) => element('li', '',
      element('code', '', fault.place ? fault.code + ' ' + fault.place : fault.code), ' ' + fault.message,
      fault.help ? element('span', 'help', fault.help) : null)));
  };

  const show = (status) => {
    const verdict = byId('verdict');
    verdict.className = 'state ' + status.status;
    setText(verdict, stateText(status.status, status.reason));
    document.title = (STATES[status.status] || status.status) + ' · Gateway';
    facts(status);
    refusedReload(status.reload);
    const everything = [...status.families, status.noFamily];
    traffic.set(sum(everything.map((one) => one.requestsPerSecond)), sum(everything.map((one) => one.errorsPerSecond)),
      status.steps, status.stepSeconds);
    const list = byId('families');
    const names = status.families.map((family) => family.family);
    if (names.join('\n') !== [...cards.keys()].join('\n')) {
      cards.clear();
      names.forEach((name) => cards.set(name, new Card(name)));
      list.replaceChildren(...[...cards.values()].map((card) => card.node));
    }
    status.families.forEach((family, index) => cards.get(family.family).set(family, index, status));
  };

  let seen = null;
  const refresh = async () => {
    const stale = byId('stale');
    try {
      const response = await fetch('status.json', { cache: 'no-store', signal: AbortSignal.timeout(PERIOD * 2) });
      if (!response.ok) throw new Error('answered ' + response.status);
      show(await response.json());
      seen = new Date();
      stale.hidden = true;
    } catch (error) {
      stale.hidden = false;
      setText(stale, 'The gateway does not answer (' + error.message + '). '
        + (seen ? 'What is below was seen at ' + seen.toLocaleTimeString() + '.' : ''));
    }
  };
  const follow = async () => {
    if (!document.hidden) await refresh();
    setTimeout(follow, PERIOD);
  };
  document.addEventListener('visibilitychange', () => { if (!document.hidden) refresh(); });

  const answer = (told) => {
    const outcome = told.forwarded
      ? element('span', 'state ready', 'Forwarded to ' + told.owner)
      : element('span', 'state not_ready', 'Refused with ' + told.status);
    byId('answer').replaceChildren(
      element('div', 'lead', outcome, element('span', 'quiet', told.why)),
      pairs('pairs', [
        ['Target', element('code', '', told.target)],
        ['Family', told.family ? told.family + (told.team ? ' (' + told.team + ')' : '') : 'none claims it'],
        ['Template', told.template ? element('code', '', told.template) : null],
        ['Code', told.code ? element('code', '', told.code) : null],
        ['Read as', told.reading ? element('code', '', told.reading.path) : null],
        ['by', told.reading ? told.reading.how : null],
        ['it goes to', told.reading ? told.reading.owner : null],
      ]));
  };
  byId('ask').addEventListener('submit', async (event) => {
    event.preventDefault();
    const path = byId('path').value;
    try {
      const response = await fetch('explain?path=' + encodeURIComponent(path), { cache: 'no-store' });
      if (!response.ok) throw new Error('answered ' + response.status);
      answer(await response.json());
      history.replaceState(null, '', '#' + encodeURIComponent(path));
    } catch (error) {
      byId('answer').replaceChildren(element('p', 'stale', 'The gateway does not answer (' + error.message + ').'));
    }
  });

  const asked = location.hash.slice(1);
  if (asked) {
    try { byId('path').value = decodeURIComponent(asked); } catch { byId('path').value = asked; }
    byId('ask').requestSubmit();
  }
  follow();
})();
