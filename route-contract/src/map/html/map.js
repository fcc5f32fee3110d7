(() => {
  const form = document.getElementById('search');
  const query = document.getElementById('query');
  const found = document.getElementById('found');
  const items = [...document.querySelectorAll('.tree li')].map((item) => ({
    item,
    text: (item.dataset.path + ' ' + (item.querySelector('summary, .row') || item).textContent).toLowerCase(),
    details: item.querySelector(':scope > details'),
  }));
  const opened = new Map(items.filter((entry) => entry.details).map((entry) => [entry.details, entry.details.open]));
  const search = () => {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) {
      items.forEach((entry) => { entry.item.hidden = false; });
      opened.forEach((open, details) => { details.open = open; });
      found.textContent = '';
      return;
    }
    let count = 0;
    items.forEach((entry) => { entry.item.hidden = true; });
    items.forEach((entry) => {
      if (!words.every((word) => entry.text.includes(word))) return;
      count += 1;
      for (let at = entry.item; at && at.tagName === 'LI'; at = at.parentElement.closest('li')) {
        at.hidden = false;
        const details = at.querySelector(':scope > details');
        if (details && at !== entry.item) details.open = true;
      }
    });
    found.textContent = count === 1 ? '1 path' : count + ' paths';
  };
  const all = (open) => items.forEach((entry) => { if (entry.details) entry.details.open = open; });
  query.addEventListener('input', search);
  form.addEventListener('submit', (event) => event.preventDefault());
  document.getElementById('expand').addEventListener('click', () => all(true));
  document.getElementById('collapse').addEventListener('click', () => all(false));
  document.addEventListener('keydown', (event) => {
    if (event.key === '/' && document.activeElement !== query) { event.preventDefault(); query.focus(); }
    if (event.key === 'Escape' && document.activeElement === query) { query.value = ''; search(); }
  });
  form.hidden = false;
  const given = decodeURIComponent(location.hash.slice(1));
  if (given) { query.value = given; search(); }
})();
