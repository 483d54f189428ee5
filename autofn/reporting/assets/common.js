// What the other scripts share. All of them are joined into one function, in the order that page.py names.
const data = JSON.parse(document.getElementById("data").textContent);
const FILTERS = ["function", "variant", "workload", "phase", "dtype", "device", "machine"];
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const element = (name, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};
