// Rules for static/: recommended ones, and a few that keep modules consistent. Formatting is prettier's.
import js from "@eslint/js";
import globals from "globals";
import literalText from "./literal_text.js";

export default [
  { ignores: ["**/node_modules/**", "**/vendor/**"] },
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2025, sourceType: "module", globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      curly: ["error", "multi-line"],
      eqeqeq: "error",
      "no-duplicate-imports": "error",
      "no-else-return": "error",
      "no-empty": ["error", { allowEmptyCatch: true }],
      "no-implicit-coercion": ["error", { allow: ["!!"] }],
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "Text from data goes in as text: use shared/dom.js." },
        { property: "outerHTML", message: "Text from data goes in as text: use shared/dom.js." },
      ],
      "no-throw-literal": "error",
      "no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_", ignoreRestSiblings: true }],
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "prefer-template": "error",
      "no-shadow": ["error", { builtinGlobals: false, hoist: "functions" }],
    },
  },
  {
    // Written for size: at most 2,400 bytes gzipped as served.
    files: ["**/static/tracker.js"],
    rules: { curly: "off", eqeqeq: "off", "no-implicit-coercion": "off", "prefer-template": "off" },
  },
  {
    files: ["**/static/**"],
    // Names of languages, of brands and of assistants are the same in every language. The tracker loads no texts from the
    // server.
    ignores: [
      "**/static/tracker.js",
      "**/static/tracker/**",
      "**/shared/language.js",
      "**/shared/brands.js",
      "**/account/assistant_setup.js",
    ],
    plugins: { tally: { rules: { "literal-text": literalText } } },
    rules: { "tally/literal-text": "error" },
  },
  { files: ["**/tests/js/**", "**/clients/js/**"], languageOptions: { globals: globals.node } },
];
