// A lint rule: text that a person reads comes from static/messages/, never from a literal in a module.
//
// It reports a literal that stands where an element's text is written (children of h(), fill() and the like; properties
// such as `title`), and any literal of two words or with a capital first letter, except where no person reads it: names
// of classes, keys and events, paths, selectors, arguments of Error and console.

const CREATES = { h: 2, svg: 2, fill: 1, refill: 1, visuallyHidden: 0 }; // function: index of the first child
const CODE = /^(code|pre|kbd|samp)$/; // elements whose text is the same in every language
const SHOWN = /^(title|label|placeholder|aria-label|aria-description|alt|message|means|summary|caption)$/;
const HIDDEN = /^(class|className|d|sandbox|allow|viewBox|rel|autocomplete|pattern|type|key|unit|font)$/;
const UNREAD_CALLS =
  /^(Error|TypeError|RangeError|querySelector|querySelectorAll|closest|matches|evaluate|addEventListener|warn|error|log|includes|startsWith|endsWith|indexOf|get|has|split|join|getPropertyValue|matchMedia|add|remove|toggle|setProperty|t|rich)$/;
// Names of keys, and abbreviations that are the same in every language (CSV, UTC, POST).
const KEYS = /^(Arrow\w+|Enter|Esc|Escape|Home|End|Page\w+|Tab|Delete|Backspace|Shift|Control|Alt|Meta|[A-Z]{3,6})$/;

const PRODUCT = "Tally";
// Domains: "example.com"
const DOMAIN = /^[\w-]+(\.[\w-]+)+$/;
// Paths and names of time zones: "Europe/Kyiv"
const PATH = /^[\w/-]+\/[\w/-]+$/;
// HTML and commands to copy
const SOURCE = /^(<\w|curl |analytics-server )/;
// Names of classes: "chart-mark-text left"
const CLASSES = /^[a-z]+(-[a-z]+)+( [a-z-]+)*$/;

/** @param {any} node */
function nameOf(node) {
  return node.type === "MemberExpression" ? node.property.name : node.name;
}

/** @param {any} node */
function isText(node) {
  return node?.type === "CallExpression" && /^(t|rich)$/.test(nameOf(node.callee));
}

/**
 * Returns whether the text at a node is shown (true), not shown (false), or cannot be decided here (null).
 *
 * @param {any} node
 */
function placed(node) {
  for (let [at, parent] = [node, node.parent]; parent; [at, parent] = [parent, parent.parent]) {
    switch (parent.type) {
      case "ConditionalExpression":
        if (parent.test === at) return false;
        continue;
      case "ArrayExpression":
        // ["previous", t("previous_period")]: a name beside its text.
        if (parent.elements.some(isText)) return false;
        continue;
      case "LogicalExpression":
      case "TSAsExpression":
        continue;
      case "CallExpression":
      case "NewExpression": {
        const name = nameOf(parent.callee);
        const index = parent.arguments.indexOf(at);
        if (Object.hasOwn(CREATES, name) && index >= 0) {
          return index >= CREATES[name] && !CODE.test(parent.arguments[0].value);
        }
        return UNREAD_CALLS.test(name) ? false : null;
      }
      case "Property": {
        if (parent.key === at) return false;
        const key = String(parent.key.name ?? parent.key.value);
        if (SHOWN.test(key)) return true;
        return HIDDEN.test(key) ? false : null;
      }
      case "BinaryExpression":
        if (parent.operator !== "+") return false;
        continue;
      case "SwitchCase":
      case "ImportDeclaration":
      case "ExportNamedDeclaration":
      case "ImportExpression":
      case "MemberExpression":
        return false;
      default:
        return null;
    }
  }
  return null;
}

export default {
  meta: { type: "problem", schema: [] },
  /** @param {any} context */
  create(context) {
    /**
     * @param {any} node
     * @param {string} text
     */
    function check(node, text) {
      // Abbreviations such as CSV are the same in every language.
      if (!/[A-Za-z][a-z]/.test(text.replaceAll(PRODUCT, "")) || KEYS.test(text.trim()) || DOMAIN.test(text)) return;
      const shown = [CLASSES, PATH, SOURCE].some((kind) => kind.test(text)) ? placed(node) === true : placed(node);
      const reads = /(^|\s)[A-Z][a-z]+/.test(text) || /[a-z]{2,} [a-z]{2,}/.test(text);
      if (shown === true || (shown === null && reads)) {
        context.report({ node, message: "Text that a person reads belongs in static/messages: use t() or rich()." });
      }
    }
    return {
      Literal: (/** @type {any} */ node) => void (typeof node.value === "string" && check(node, node.value)),
      TemplateLiteral: (/** @type {any} */ node) =>
        check(node, node.quasis.map((/** @type {any} */ part) => part.value.cooked).join(" ")),
    };
  },
};
