"""`gangplan report`: the plan as one HTML page that opens from disk (docs/reference/report.md)."""

from compiler.views.report.document import Base as Base
from compiler.views.report.page import live_page as live_page
from compiler.views.report.page import replay_page as replay_page
from compiler.views.report.page import report_page as report_page
