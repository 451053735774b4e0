// Forms that call this service from the browser, drawn by Swagger UI from the description.
const response = await fetch('/docs/openapi.json')
if (!response.ok) throw new Error(`The description returned ${response.status}.`)
const description = await response.json()
// Calls go to where the page came from, whatever address the service has elsewhere.
delete description.jsonSchemaDialect // Swagger UI warns of any but its own; the schemas are of the same language.
description.servers = [{ url: location.origin }]
description.info.description =
  'Calls go to this service, with the key that you give under Authorize. The key stays in this page: use one of a test partner. The guides are in the [reference](/docs).'

window.SwaggerUIBundle({
  spec: description,
  dom_id: '#try',
  deepLinking: true,
  docExpansion: 'none',
  filter: true,
  tryItOutEnabled: true,
  displayRequestDuration: true,
  validatorUrl: null
})
