package indextables.spark;

import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.expressions.Transform;

/** The description of a table that a statement creates. */
final class NewTable {
    private final TableInfo info;

    NewTable(TableInfo info) {
        this.info = info;
    }

    Column[] columns() {
        return info.columns();
    }

    Transform[] partitions() {
        return info.partitions();
    }

    Map properties() {
        return info.properties();
    }

    Table createdIn(TableCatalog catalog, Identifier name)
        throws TableAlreadyExistsException, NoSuchNamespaceException {
        return catalog.createTable(name, info);
    }
}
